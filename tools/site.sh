#!/bin/sh
# Makes the documentation as web pages: the documents as they are, and the reference of Python, C and the
# command. Every warning is an error, a link that leads nowhere too.
#
#   tools/site.sh BUILD FOLDER
set -eu
cd "$(dirname "$0")/.."
if ! command -v doxygen >/dev/null || ! python3 -c "import sphinx, breathe, myst_parser, furo" 2>/dev/null; then
    echo "site: needs doxygen and Sphinx: tools/install.sh site"
    exit 77
fi
build=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
[ ! -f "$folder/objects.inv" ] || rm -rf "${folder:?}"/* # pages of an earlier run
source=$build/site-source
rm -rf "$source"
mkdir -p "$source"

# The project's files lie as they do there, so that links from one document to another file lead somewhere.
git ls-files -z --cached --others --exclude-standard | grep -zv -e '^doc/site/' -e '^\.' | sort -zu |
    xargs -0 cp -P --parents -t "$source"
cp doc/site/conf.py doc/site/index.md "$source"

export SHOAL_VERSION="$("$build/cmd/shoal" version | cut -d' ' -f2)" SHOAL_DOXYGEN=$build/site-xml/xml
rm -rf "$build/site-xml"
mkdir -p "$build/site-xml"
{ cat doc/site/Doxyfile; printf 'INPUT = include/shoal\nOUTPUT_DIRECTORY = %s\nINPUT_FILTER = "python3 tools/site_pages.py --header"\n' "$build/site-xml"; } |
    doxygen - >"$build/site-xml/log" 2>&1 || { cat "$build/site-xml/log" >&2; exit 1; }
PYTHONPATH=$build/python python3 tools/site_pages.py --shoal "$build/cmd/shoal" "$source"
PYTHONPATH=$build/python python3 -m sphinx --fail-on-warning --keep-going -q -b html -d "$build/site-trees" "$source" "$folder"
python3 tools/site_links.py "$folder"
