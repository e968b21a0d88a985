#!/bin/sh
# An agent in a shell script: `costgym rank -- sh examples/commands/curl.sh`. It needs curl and jq.
set -eu
post() { curl -sS --fail-with-body -H 'Content-Type: application/json' -d @- "$1"; }

functions=$(curl -sS "$COSTGYM_TOOLS_URL")
messages=$(jq -n --arg task "$COSTGYM_TASK" '[
  {role: "system", content: "Answer with the help of functions. Call finish with every fact that was asked for."},
  {role: "user", content: $task}]')

for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
  reply=$(jq -n --argjson m "$messages" --argjson f "$functions" '{model: "any", messages: $m, tools: $f}' |
    post "$OPENAI_BASE_URL/chat/completions" | jq '.choices[0].message')
  messages=$(jq -n --argjson m "$messages" --argjson r "$reply" '$m + [$r]')
  if [ "$(echo "$reply" | jq '.tool_calls | length')" = 0 ]; then
    echo "$reply" | jq -r '.content | gsub("\n"; " ")'
    exit
  fi
  for number in $(echo "$reply" | jq '.tool_calls | keys[]'); do
    call=$(echo "$reply" | jq ".tool_calls[$number]")
    name=$(echo "$call" | jq -r .function.name)
    result=$(echo "$call" | jq -r .function.arguments | post "$COSTGYM_TOOLS_URL/$name")
    messages=$(jq -n --argjson m "$messages" --argjson c "$call" --argjson r "$result" \
      '$m + [{role: "tool", tool_call_id: $c.id, content: $r.content}]')
    [ "$name" != finish ] || exit 0
  done
done
