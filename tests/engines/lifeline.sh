#!/usr/bin/env bash
# lifeline.sh COMMAND...: runs COMMAND until it ends or until our stdin closes, then kills it with all its children.
# A pipe closes however its writer ends, so that not even a test run that is killed leaves an engine behind.
# Must lead its own process group (start it with setsid), because it kills its whole group.
trap : TERM # so that the group's SIGTERM below spares this script; COMMAND does not inherit it
"$@" </dev/null &
command=$!
cat >/dev/null <&0 &
wait -n
kill -TERM 0
timeout 5 tail --pid=$command -f /dev/null
kill -KILL 0
