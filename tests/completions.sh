# For the tests of the program: whether a man page and shells' completions say what --help says, which CLI11 writes by
# itself. `source`d after program.sh.

# What --help lists, asked once, as a start of the program takes its time: $first_verbs, and for each verb that does
# something, "data get" for one, its long options but --help in a file of that name in the folder verbs.
list_verbs() {
  local verb word below
  mkdir verbs
  first_verbs=$(verbs_below)
  for verb in $first_verbs; do
    below=$(verbs_below "$verb")
    [ -n "$below" ] || options_of "$verb"
    for word in $below; do options_of "$verb" "$word"; done
  done
  [ "$(ls verbs | wc -l)" -ge 10 ] || fail "expected ten verbs and more, found $(ls verbs)"
}
verbs_below() { "$program" "$@" --help | sed -n '/^Subcommands/,$s/^  \([a-z][a-z-]*\).*/\1/p'; }
options_of() {
  "$program" "$@" --help | sed -nE 's/^  (-[a-z],)?(--[a-z][a-z-]*).*/\2/p' | grep -v '^--help$' >"verbs/$*"
}

# check_manual FILE: no warning, every verb with every option, ranges and defaults.
check_manual() {
  local verb option section
  cat "$1" >page.1
  MANWIDTH=200 man --warnings -E UTF-8 -l page.1 >page.txt 2>warnings || fail "man: $(cat warnings)"
  [ -s warnings ] && fail "man warns: $(cat warnings)"
  for verb in verbs/*; do
    verb=${verb#verbs/}
    section=$(awk -v title="   orthobatch $verb" '/^ ? ? ?[^ ]/ { on = 0 } $0 == title { on = 1 } on' page.txt)
    [ -n "$section" ] || fail "man page: no section of $verb"
    for option in $(cat "verbs/$verb"); do
      grep -qE -- "^ +(-[a-z], )?$option( |\$)" <<<"$section" || fail "man page: $verb: no $option"
    done
  done
  grep -q 'Range: 1 to 1024' page.txt || fail "man page: no ranges"
  grep -q 'Default: contact-sheet.png' page.txt || fail "man page: no defaults"
}

# offers SHELL LINE WORDS: what follows the line has these words; LINE ends where the cursor is.
offers() {
  local said word
  said=$("offered_by_$1" "$2")
  for word in $3; do
    grep -qx -- "$word" <<<"$said" || fail "$1: expected '$word' after '$2', found: $(tr '\n' ' ' <<<"$said")"
  done
}
# offers_only: and no other.
offers_only() {
  offers "$1" "$2" "$3"
  [ "$("offered_by_$1" "$2" | sort | xargs)" = "$(tr ' ' '\n' <<<"$3" | sort | xargs)" ] ||
    fail "$1: expected only '$3' after '$2', found: $("offered_by_$1" "$2" | xargs)"
}

check_offers() {
  local shell=$1 verb
  offers "$shell" "orthobatch " "$first_verbs"
  offers_only "$shell" "orthobatch trai" train
  offers_only "$shell" "orthobatch data " "get verify show"
  offers_only "$shell" "orthobatch data get m" mnist
  offers_only "$shell" "orthobatch train --head " "flat average max"
  offers_only "$shell" "orthobatch train --quiet --head=av" "${2}average"
  offers_only "$shell" "orthobatch train --layer BN --padding s" same
  offers "$shell" "orthobatch train --layer " "BN ZCA PLDLP IterNorm"
  offers "$shell" "orthobatch layers " "ZCAE LDL_corr"
  offers_only "$shell" "orthobatch bench --layout " "cl nchw both"
  offers "$shell" "orthobatch reproduce " "mnist svhn"
  touch "a file.json"
  "offered_by_$shell" "orthobatch train --config a" | grep -qx 'a file.json' || fail "$shell: expected a file after --config"
  for verb in verbs/*; do
    offers "$shell" "orthobatch ${verb#verbs/} --" "$(cat "$verb")"
  done
}

# As bash splits a line for a completion: = is a word of its own.
offered_by_bash() {
  local words
  read -ra words <<<"${1//=/ = }"
  [[ $1 == *[\ =] ]] && words+=("")
  # shellcheck disable=SC2016
  bash -c 'compopt() { :; }; . "$0" && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && _orthobatch; printf "%s\n" "${COMPREPLY[@]}"' \
    "$completion" "${words[@]}"
}
check_bash() {
  completion=$1
  check_offers bash ''
}

offered_by_fish() {
  HOME=$work fish --no-config -c "source $completion; complete -C '$1'" 2>&1 | cut -f 1
}
check_fish() {
  completion=$1
  command -v fish >/dev/null || return 0
  check_offers fish --head=
}

check_zsh() {
  command -v zsh >/dev/null || return 0
  timeout 120 zsh -f "$source/tests/zsh_offers.zsh" "$(dirname "$1")" 'orthobatch data ' verify \
    'orthobatch data get ' svhn-train 'orthobatch train --head ' average 'orthobatch train --head=' flat \
    'orthobatch train --pad' --padding 'orthobatch layers Z' ZCA_corr 'orthobatch reproduce ' gradients >zsh.log 2>&1 ||
    fail "$(cat zsh.log)"
}
