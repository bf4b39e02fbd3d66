#compdef tandem
# Completes tandem's command lines in zsh; made by: tandem completion zsh

_tandem_words_or_files() {
  compadd -- "$@"
  _files
}

typeset -ga _tandem_commands
_tandem_commands=(
@LISTED@)

_tandem() {
  local curcontext=$curcontext state line
  if ((CURRENT == 2)); then
    _describe -t commands 'command of tandem' _tandem_commands
    return
  fi
  local command=$words[2]
  if [[ $command == help ]]; then
    _describe -t commands 'command of tandem' _tandem_commands
    return
  fi
  if ((CURRENT > 3)); then
    case "$command $words[3]" in
      @ACTIONS@)
        command="$command $words[3]"
        shift words
        ((CURRENT--))
        ;;
    esac
  fi
  shift words
  ((CURRENT--))
  case $command in
@CASES@  esac
}

if [[ $funcstack[1] == _tandem ]]; then
  _tandem "$@"
else
  compdef _tandem tandem
fi
