-- MapDataPipe.lua - the base of map-style pipes, whose items have positions or other keys. Each
-- step has a class in torch.data.datapipes.map and a functional form:
--
--    local pipe = torch.data.datapipes.map.SequenceWrapper {1, 2, 3}
--    pipe = pipe:map(function(x) return x * x end):batch(2)
--    pipe:get(1)      -- {1, 4}
--
-- A user-defined class has `get` and `__len`, like a Dataset.

local class = require "tlua.class"
local forms = require "tlua.datapipes.forms"
local Dataset = require "tlua.data.Dataset"

---@class data.MapDataPipe: data.Dataset
---@field functions table<string, function>  the functional forms
---@field batch fun(self, batch_size: integer, drop_last?, wrapper_class?): data.MapDataPipe
---@field concat fun(self, ...: data.MapDataPipe): data.MapDataPipe
---@field map fun(self, fn: function): data.MapDataPipe
---@field shuffle fun(self, options?: table): data.IterDataPipe
---@field zip fun(self, ...: data.MapDataPipe): data.MapDataPipe
local MapDataPipe = class.class("data.MapDataPipe", Dataset)

forms.install(MapDataPipe, "tlua.datapipes.map", {
   batch = "Batcher", concat = "Concater", map = "Mapper", shuffle = "Shuffler", zip = "Zipper",
})

return MapDataPipe
