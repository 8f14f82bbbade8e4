-- cd rocks/text && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-text"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Tokenizers: from text to numbers and back",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.text.BPE"] = "BPE.lua",
      ["tlua.text"] = "init.lua",
      ["tlua.text.unicode"] = "unicode.lua",
      ["tlua.text.vocabulary"] = "vocabulary.lua",
   },
}
