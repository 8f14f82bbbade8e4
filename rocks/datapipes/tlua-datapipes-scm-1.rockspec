-- cd rocks/datapipes && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-datapipes"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "PyTorch's data pipes: data that flows from one step to the next",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.datapipes"] = "init.lua",
      ["tlua.datapipes.DFIterDataPipe"] = "DFIterDataPipe.lua",
      ["tlua.datapipes.DataChunk"] = "DataChunk.lua",
      ["tlua.datapipes.IterDataPipe"] = "IterDataPipe.lua",
      ["tlua.datapipes.MapDataPipe"] = "MapDataPipe.lua",
      ["tlua.datapipes.RandomPipe"] = "RandomPipe.lua",
      ["tlua.datapipes.branches"] = "branches.lua",
      ["tlua.datapipes.callables"] = "callables.lua",
      ["tlua.datapipes.combining"] = "combining.lua",
      ["tlua.datapipes.copy"] = "copy.lua",
      ["tlua.datapipes.determinism"] = "determinism.lua",
      ["tlua.datapipes.forms"] = "forms.lua",
      ["tlua.datapipes.functional_datapipe"] = "functional_datapipe.lua",
      ["tlua.datapipes.glob"] = "glob.lua",
      ["tlua.datapipes.graph_settings"] = "graph_settings.lua",
      ["tlua.datapipes.grouping"] = "grouping.lua",
      ["tlua.datapipes.guard"] = "guard.lua",
      ["tlua.datapipes.iter"] = "iter.lua",
      ["tlua.datapipes.map"] = "map.lua",
      ["tlua.datapipes.rows"] = "rows.lua",
      ["tlua.datapipes.selecting"] = "selecting.lua",
      ["tlua.datapipes.sources"] = "sources.lua",
      ["tlua.datapipes.switches"] = "switches.lua",
      ["tlua.datapipes.types"] = "types.lua",
      ["tlua.datapipes.validation"] = "validation.lua",
   },
}
