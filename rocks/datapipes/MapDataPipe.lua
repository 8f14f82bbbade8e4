-- MapDataPipe.lua - the base class of map-style pipes, whose items are accessed by positions or
-- other keys. Each processing step has a class in torch.data.datapipes.map and a functional form:
--
--    local pipe = torch.data.datapipes.map.SequenceWrapper {1, 2, 3}
--    pipe = pipe:map(function(x) return x * x end):batch(2)
--    pipe:get(1)      -- {1, 4}
--
-- A user-defined class has `get` and `__len`, like a Dataset.
--
--    local pipe = torch.data.datapipes.map.SequenceWrapper {1, 2}
--    print(torch.isinstance(pipe, torch.data.MapDataPipe))
--    --> true

local class = require "tlua.class"
local forms = require "tlua.datapipes.forms"
local Dataset = require "tlua.data.Dataset"

---@class data.MapDataPipe: data.Dataset
---@field functions table<string, function>  the functional forms
local MapDataPipe = class.class("data.MapDataPipe", Dataset)

--- Creates a pipe that reads this pipe. Its class is the class of the functional form, such as
--- datapipes.map.Batcher for `batch`. The arguments are those of the class after the pipe.
---@names data.MapDataPipe:batch data.MapDataPipe:concat data.MapDataPipe:map
---@names data.MapDataPipe:shuffle data.MapDataPipe:zip
---@param ... any  the class's arguments after the pipe
---@return data.MapDataPipe
forms.install(MapDataPipe, "tlua.datapipes.map", {
   batch = "Batcher", concat = "Concater", map = "Mapper", shuffle = "Shuffler", zip = "Zipper",
})

return MapDataPipe
