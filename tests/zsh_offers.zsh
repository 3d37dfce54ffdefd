# Whether zsh lists a word after a line: zsh -f zsh_offers.zsh FOLDER-OF-COMPLETION LINE WORD [LINE WORD]…
# It tells nobody but its terminal: so there is one, which is typed into until the list shows the word.
folder=$1
shift
zmodload zsh/zpty
zpty shell zsh -f -i
# What is typed before the prompt is there would be the terminal's, not the line editor's.
zpty -w shell "fpath=(${(q)folder} \$fpath); autoload -U compinit; compinit -u -D; LISTMAX=10000; PROMPT=rea''dy"
zpty -r shell text '*ready*'
failed=0
for line word in "$@"; do
  zpty -w -n shell $'\C-u'"$line"$'\C-d'
  seen= found=
  for i in {1..100}; do
    sleep 0.1
    while zpty -rt shell text; do seen+=$text; done
    # Behind the line itself, which is echoed.
    [[ ${seen#*$line} == *$word* ]] && found=yes && break
  done
  [[ -n $found ]] || { print -r -- "zsh: expected '$word' after '$line', found: ${(V)seen}"; failed=1; }
done
zpty -d shell
exit $failed
