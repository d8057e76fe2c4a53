# What awaits whom, as Markdown, from `countersign build --check --json`. Prints nothing if no release waits.
def code: "`" + gsub("[`\n\r]"; "") + "`";
[.plugins[] | .slug as $slug | .tags[] | . + {name: "\($slug) \(.version)"}]
| map(
    if .outcome == "awaits_signatures" then
      "- \(.name | code) awaits \(.signatures.needed - .signatures.good) of \(.signatures.needed) signatures, by " +
      (.signatures.missing | map(code) | join(" or ")) + ": `countersign sign \(.name)`"
    elif .outcome == "leaves_behind" then
      (.name | code) as $release | .left_behind[] | select(.allowed | not) |
      "- \($release) would leave \(.sites // "an unknown number of") sites behind that run \(.version | code). " +
      "It needs a signature by " + (.keys | map(code) | join(" or "))
    elif .outcome == "awaits_package" then "- \(.name | code) awaits its package: `countersign package add`"
    else empty end)
| if . == [] then empty else (["These releases are not published yet:", ""] + .) | join("\n") end
