# Sourced by the scripts beside it, first of all: where --help is asked for, prints what a script's opening comment says,
# and ends it. PROGRAM, if it is set, is the module that the script runs: it tells its options, where there is .venv.
case "${1:-}" in
  -h | --help)
    printf 'usage: %s\n\n' "$0"
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$0"
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    if [ -n "${PROGRAM:-}" ] && [ -x "$here/../.venv/bin/python" ]; then
      printf '\n'
      PYTHONPATH=$here exec "$here/../.venv/bin/python" -m "$PROGRAM" --help
    fi
    exit
    ;;
esac
