-- cd rocks/audio && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-audio"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Sound: files, transforms and models by torchaudio's names",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.audio.companding"] = "companding.lua",
      ["tlua.audio.files"] = "files.lua",
      ["tlua.audio"] = "init.lua",
      ["tlua.audio.vocabulary"] = "vocabulary.lua",
      ["tlua.audio.wav"] = "wav.lua",
   },
}
