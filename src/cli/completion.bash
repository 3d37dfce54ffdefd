# bash completion for orthobatch: what --help of the program and of its verbs lists, asked when it is needed.

declare -gA _orthobatch_said

# The help of some verb, an entry a line; kept, as a start of the program takes its time.
_orthobatch_help() {
  local key="$*"
  [[ -n ${_orthobatch_said[$key]:-} ]] || _orthobatch_said[$key]=$("$_orthobatch_program" "$@" --help 2>/dev/null |
    awk '/^ {20,}/ { sub(/^ +/, " "); entry = entry $0; next } { if (NR > 1) print entry; entry = $0 } END { print entry }')
  printf '%s\n' "${_orthobatch_said[$key]}"
}

_orthobatch_verbs() { _orthobatch_help "$@" | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'; }
_orthobatch_options() { _orthobatch_help "$@" | sed -nE 's/^  (-[a-z],)?(--[a-z][a-z-]*).*/\2/p'; }
_orthobatch_positionals() { _orthobatch_help "$@" | sed -n '/^Positionals:/,/^$/s/^  \([A-Z].*\)/\1/p'; }

# Entry of an option that takes a value; fails for a flag.
_orthobatch_entry() {
  local option=$1
  shift
  _orthobatch_help "$@" | grep -E -- "^  (-[a-z],)?$option [^ ]|^  $option,--[a-z-]+ [^ ]"
}

# What may stand for the value of an entry: words that it lists, "flat|average|max" or "mnist, svhn or synthetic"; the
# methods for a layer; @files where it may be a file.
_orthobatch_values() {
  local entry=$1 value words= word='[a-z][a-z0-9-]*'
  value=$(sed -nE 's/^ *(-[^ ]* )?([^ ]+).*/\2/p' <<<"$entry")
  case $value in
    N | X | PATTERN | KEY=VALUE) return ;;
    SPEC | METHOD) "$_orthobatch_program" layers 2>/dev/null | sed -nE 's/^([A-Za-z_]+)\(.*/\1/p' ; return ;;
    *'|'*) words=$(tr '|' '\n' <<<"$value" | grep '^[a-z]') ;;
    *) words=$(grep -oE "[( ]$word(, $word)* or $word( \\(|;)" <<<"$entry" | head -n 1 | sed 's/[(;,]/ /g; s/ or / /') ;;
  esac
  [[ -n $words && $value != *DIR* && $entry != *'; or a '* ]] || words+=" @files"
  printf '%s\n' "$words"
}

_orthobatch() {
  local word=${COMP_WORDS[COMP_CWORD]} verbs=() entry= words= place=0 before i
  _orthobatch_program=${COMP_WORDS[0]/#\~/$HOME}
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    before=${COMP_WORDS[i]}
    if [[ $before == '=' ]]; then  # --option=value is three words
      continue
    elif [[ -n $entry ]]; then
      entry=
    elif [[ $before == -* ]]; then
      entry=$(_orthobatch_entry "$before" "${verbs[@]}")
    elif _orthobatch_verbs "${verbs[@]}" | grep -qx -- "$before"; then
      verbs+=("$before")
    else
      place=$((place + 1))
    fi
  done
  [[ $word == '=' ]] && word=
  word=${word#[\"\']}
  if [[ -z $entry && $word != -* ]]; then
    words=$(_orthobatch_verbs "${verbs[@]}")
    # The last positional may be given again.
    [[ -n $words ]] || entry=$(_orthobatch_positionals "${verbs[@]}" | sed -n "$((place + 1))p;\$p" | head -n 1)
  fi
  if [[ -n $entry ]]; then words=$(_orthobatch_values "$entry"); fi
  [[ -n $words ]] || words=$(_orthobatch_options "${verbs[@]}")
  mapfile -t COMPREPLY < <(
    compgen -W "${words//@files/}" -- "$word"
    [[ $words == *@files* ]] && compgen -f -- "$word"
  )
  [[ $words != *@files* ]] || compopt -o filenames
}
complete -F _orthobatch orthobatch
