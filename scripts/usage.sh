# Sourced first by the scripts in this folder: on --help, prints the opening comment of the script and exits. If PROGRAM,
# the module that the script runs, is set and .venv exists, also prints the help of the module.
case "${1:-}" in
  -h | --help)
    printf 'usage: %s\n\n' "$0"
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$0"
    folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    if [ -n "${PROGRAM:-}" ] && [ -x "$folder/../.venv/bin/python" ]; then
      printf '\n'
      PYTHONPATH=$folder exec "$folder/../.venv/bin/python" -m "$PROGRAM" --help
    fi
    exit
    ;;
esac
