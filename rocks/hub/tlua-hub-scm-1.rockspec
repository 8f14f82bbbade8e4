-- cd rocks/hub && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-hub"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Fetches published models and caches them, with the names of torch.hub",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.hub.Repository"] = "Repository.lua",
      ["tlua.hub.architecture"] = "architecture.lua",
      ["tlua.hub.cache"] = "cache.lua",
      ["tlua.hub.command"] = "command.lua",
      ["tlua.hub.download"] = "download.lua",
      ["tlua.hub"] = "init.lua",
      ["tlua.hub.manifest"] = "manifest.lua",
      ["tlua.hub.models"] = "models.lua",
      ["tlua.hub.names"] = "names.lua",
      ["tlua.hub.pack"] = "pack.lua",
      ["tlua.hub.vocabulary"] = "vocabulary.lua",
      ["tlua.hub.weights"] = "weights.lua",
   },
}
