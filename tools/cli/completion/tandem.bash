# Completes tandem's command lines in bash; made by: tandem completion bash

_tandem() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  # bash cuts --option=value at the sign.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  local command=${COMP_WORDS[1]} commands='@COMMANDS@'
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "help $commands --help --version" -- "$current")
    return
  fi
  [[ $command == help ]] && mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  if ((COMP_CWORD > 2)); then
    case "$command ${COMP_WORDS[2]}" in
      @ACTIONS@) command="$command ${COMP_WORDS[2]}" ;;
    esac
  fi
  # options: those of the command. words: what a word that is no option may be, files: whether that
  # may be a file, more: whether one behind the first may. value: what the option before takes.
  local options= words= files=no more=no value=no
  case $command in
@CASES@    *) return ;;
  esac
  if [[ $value == no && $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  if [[ $value != no ]]; then
    words=$value
  elif ((COMP_CWORD > 2)) && [[ $more == yes ]]; then
    files=yes
  fi
  # Of a list A,B,C the last is completed.
  local listed=
  [[ $current == *,* ]] && listed=${current%,*},
  mapfile -t COMPREPLY < <(compgen -P "$listed" -W "$words" -- "${current##*,}")
  if [[ $files == yes ]]; then
    local -a found
    mapfile -t found < <(compgen -f -- "$current")
    COMPREPLY+=("${found[@]}")
    compopt -o filenames 2>/dev/null
  fi
}
complete -F _tandem tandem
