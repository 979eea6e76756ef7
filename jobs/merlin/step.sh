#!/usr/bin/env bash
# Runs a step's command and ends with the exit code by which Merlin goes on:
#
#   the command            a stage                                 one sample of many
#   0                      0
#   75, or a stop signal   100: again, where it was stopped        the same
#   somebody works there   104: again, later                       the same
#   any other error        102: what depends on it does not run    101: the others go on
#
# Usage: step.sh stage|sample [--needs FILE]... [--unless FILE] -- COMMAND...
# --needs: an error if the file is not there. --unless: nothing is done if that file is there, as on a second start.
set -u
kind=$1; shift
case $kind in stage) wrong=102 ;; sample) wrong=101 ;; *) echo "step: '$kind' is neither stage nor sample" >&2; exit 102 ;; esac
while [ $# -gt 0 ]; do
  case $1 in
    --needs) [ -e "$2" ] || { echo "step: $2 is not there; the step before it has failed" >&2; exit $wrong; }; shift 2 ;;
    --unless) [ ! -e "$2" ] || { echo "step: $2 is there: done already" >&2; exit 0; }; shift 2 ;;
    --) shift; break ;;
    *) echo "step: unknown option $1" >&2; exit $wrong ;;
  esac
done
# A stage that Merlin has queued twice runs once: the lock is the command's, too, so it holds where a worker is killed
# and the command goes on. Members have a lock of the ensemble's own.
if [ "$kind" = stage ]; then
  exec 9>>step.owner
  flock -n 9 || { echo "step: $(cat step.owner) is at work here" >&2; exit 104; }
  echo "process $$ of $(hostname)${SLURM_JOB_ID:+, job $SLURM_JOB_ID}" >step.owner
fi
said=$(mktemp)
trap 'rm -f "$said"' EXIT
code=0
"$@" 2>"$said" || code=$?
cat "$said" >&2
case $code in
  0) exit 0 ;;
  75 | 138 | 143) exit 100 ;;
esac
# The other start of a task that Merlin has queued twice; its work is kept, and this one goes on from it.
if grep -qE "is being worked on by process|is in use by another mrmf" "$said"; then exit 104; fi
exit $wrong
