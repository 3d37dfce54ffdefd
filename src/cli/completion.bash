# bash completion for orthobatch: what --help of the program and of its verbs lists, asked when it is needed.

declare -gA _orthobatch_said

# Into $help, an entry a line: what some verb says to --help. It is kept, as a start of the program takes its time.
_orthobatch_ask() {
  local key="orthobatch $*"
  [[ -n ${_orthobatch_said[$key]:-} ]] || _orthobatch_said[$key]=$("$program" "$@" --help 2>/dev/null |
    awk 'length > 20 && substr($0, 1, 20) ~ /^ +$/ { sub(/^ +/, " "); entry = entry $0; next } NR > 1 { print entry } { entry = $0 } END { print entry }')
  help=${_orthobatch_said[$key]}
}

# What $help lists.
_orthobatch_verbs() { sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p' <<<"$help"; }
_orthobatch_options() { sed -nE 's/^  (-[a-z],)?(--[a-z][a-z-]*).*/\2/p' <<<"$help"; }
_orthobatch_positionals() { sed -n '/^Positionals:/,/^$/s/^  \([A-Z].*\)/\1/p' <<<"$help"; }
# The entry of an option that takes a value.
_orthobatch_entry() { grep -E -- "^  (-[a-z],)?$1 [^ ]|^  $1,--[a-z-]+ [^ ]" <<<"$help"; }

# What may stand for the value of an entry: words that it lists, "flat|average|max" or "mnist, svhn or synthetic"; the
# methods for a layer; @files where it may be a file.
_orthobatch_values() {
  local entry=$1 value words= word='[a-z][a-z0-9-]*'
  value=$(sed -nE 's/^ *(-[^ ]* )?([^ ]+).*/\2/p' <<<"$entry")
  case $value in
    N | X | PATTERN | KEY=VALUE) return ;;
    SPEC | METHOD) "$program" layers 2>/dev/null | sed -nE 's/^([A-Za-z_]+)\(.*/\1/p'; return ;;
    *'|'*) words=$(tr '|' '\n' <<<"$value" | grep '^[a-z]') ;;
    *) words=$(grep -oE "[( ]$word(, $word)* or $word( \\(|;)" <<<"$entry" | head -n 1 | sed 's/[(;,]/ /g; s/ or / /') ;;
  esac
  [[ -n $words && $value != *DIR* && $entry != *'; or a '* ]] || words+=" @files"
  printf '%s\n' "$words"
}

_orthobatch() {
  local word=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]/#\~/$HOME} verbs=() help= entry= words= place=0 before i
  COMPREPLY=()
  _orthobatch_ask
  for ((i = 1; i < COMP_CWORD; ++i)); do
    before=${COMP_WORDS[i]}
    if [[ $before == '=' ]]; then  # --option=value is three words
      continue
    elif [[ -n $entry ]]; then
      entry=
    elif [[ $before == -* ]]; then
      entry=$(_orthobatch_entry "$before")
    elif _orthobatch_verbs | grep -qx -- "$before"; then
      verbs+=("$before")
      _orthobatch_ask "${verbs[@]}"
    else
      place=$((place + 1))
    fi
  done
  [[ $word == '=' ]] && word=
  word=${word#[\"\']}
  if [[ -z $entry && $word != -* ]]; then
    words=$(_orthobatch_verbs)
    # The last positional may be given again.
    [[ -n $words ]] || entry=$(_orthobatch_positionals | sed -n "$((place + 1))p;\$p" | head -n 1)
  fi
  [[ -z $entry ]] || words=$(_orthobatch_values "$entry")
  [[ -n $words ]] || words=$(_orthobatch_options)
  mapfile -t COMPREPLY < <(
    compgen -W "${words//@files/}" -- "$word"
    [[ $words == *@files* ]] && compgen -f -- "$word"
  )
  [[ $words != *@files* ]] || compopt -o filenames
}
complete -F _orthobatch orthobatch
