-- cd rocks/tensorboard && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-tensorboard"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Writes what TensorBoard shows, and reads it back",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua", "tlua-plot"}
build = {
   type = "builtin",
   modules = {
      ["tlua.tensorboard.SummaryWriter"] = "SummaryWriter.lua",
      ["tlua.tensorboard.embedding"] = "embedding.lua",
      ["tlua.tensorboard"] = "init.lua",
      ["tlua.tensorboard.reader"] = "reader.lua",
      ["tlua.tensorboard.top"] = "top.lua",
      ["tlua.tensorboard.vocabulary"] = "vocabulary.lua",
      ["tlua.tensorboard.wire"] = "wire.lua",
   },
}
