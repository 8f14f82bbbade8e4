-- cd rocks/wandb && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-wandb"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Records runs in the offline format of Weights & Biases",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.wandb.Artifact"] = "Artifact.lua",
      ["tlua.wandb.Run"] = "Run.lua",
      ["tlua.wandb.datastore"] = "datastore.lua",
      ["tlua.wandb"] = "init.lua",
      ["tlua.wandb.md5"] = "md5.lua",
      ["tlua.wandb.system"] = "system.lua",
      ["tlua.wandb.values"] = "values.lua",
      ["tlua.wandb.vocabulary"] = "vocabulary.lua",
   },
}
