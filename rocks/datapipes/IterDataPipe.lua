-- IterDataPipe.lua - the base class of iterable pipes. A pipe is a stream of items, and may read
-- from other pipes. Each processing step has a class in torch.data.datapipes.iter and a functional
-- form:
--
--    local pipe = torch.data.datapipes.iter.IterableWrapper {1, 2, 3, 4, 5, 6}
--    local function is_even(x) return x % 2 == 0 end
--    pipe = pipe:map(function(x) return x * x end):filter(is_even):batch(2)
--    for batch in pipe:iter() do print(table.concat(batch, " ")) end
--    --> 4 16
--    --> 36
--
-- A user-defined class has `iter`, like an IterableDataset, and `reset` if it keeps state from one
-- iteration to the next. An item is one value or several; a first value of nil marks the end. In a
-- table, such as a batch, table.pack stores an item of several values.
--
-- A pipe allows one iteration at a time: starting a second iteration ends the first one, whose
-- iterator then raises an error if it is called.

local torch = require "tlua"
local class = require "tlua.class"
local determinism = require "tlua.datapipes.determinism"
local forms = require "tlua.datapipes.forms"
local guard = require "tlua.datapipes.guard"
local types = require "tlua.datapipes.types"
local IterableDataset = require "tlua.data.IterableDataset"

---@class data.IterDataPipe: data.IterableDataset
---@field functions table<string, function>  the functional forms
---@field type any  the declared type of items, for validation; see torch.data.runtime_validation
local IterDataPipe = class.class("data.IterDataPipe", IterableDataset)

-- Changes two things for this class and all classes derived from it. A call of the class, which
-- constructs a pipe, first checks non_deterministic. When a class defines a method `iter`, the
-- method is wrapped so that a pipe allows only one iteration at a time.
local info = getmetatable(IterDataPipe)
local construct <const>, define <const> = info.__call, info.__newindex

function info.__call(cls, ...)
   determinism.check(cls, ...)
   return construct(cls, ...)
end

function info.__newindex(cls, name, value)
   if name == "iter" and type(value) == "function" then value = guard.wrap(value) end
   define(cls, name, value)
end

IterDataPipe.type = "any"

--- Prepares a new iteration. Pipes that keep state from one iteration to the next override this
--- method.
function IterDataPipe:reset() end

function IterDataPipe:__len()
   torch.raise(("%s has no length"):format(torch.type(self)))
end

--- Sets a type of the items that is narrower than the type that the class declares, for validation.
---@param expected any  a type; see torch.data.runtime_validation
---@return data.IterDataPipe self
function IterDataPipe:reinforce_type(expected)
   types.check("data.IterDataPipe.reinforce_type", "expected_type", expected)
   if not types.is_part(expected, self.type) then
      torch.raise(("%s: reinforce_type: expected a part of %s, got %s"):format(
         torch.type(self), types.describe(self.type), types.describe(expected)))
   end
   self.type = expected
   return self
end

--- Creates a pipe that reads this pipe. Its class is the class of the functional form, such as
--- datapipes.iter.Batcher for `batch`. The arguments are those of the class after the pipe.
---@names data.IterDataPipe:batch data.IterDataPipe:collate data.IterDataPipe:concat
---@names data.IterDataPipe:demux data.IterDataPipe:filter data.IterDataPipe:fork
---@names data.IterDataPipe:groupby data.IterDataPipe:list_files data.IterDataPipe:map
---@names data.IterDataPipe:mux data.IterDataPipe:open_files data.IterDataPipe:read_from_stream
---@names data.IterDataPipe:sharding_filter data.IterDataPipe:shuffle data.IterDataPipe:unbatch
---@names data.IterDataPipe:zip
---@param ... any  the class's arguments after the pipe
---@return data.IterDataPipe
forms.install(IterDataPipe, "tlua.datapipes.iter", {
   batch = "Batcher", collate = "Collator", concat = "Concater", demux = "Demultiplexer",
   filter = "Filter", fork = "Forker", groupby = "Grouper", list_files = "FileLister",
   map = "Mapper", mux = "Multiplexer", open_files = "FileOpener",
   read_from_stream = "StreamReader", sharding_filter = "ShardingFilter", shuffle = "Shuffler",
   unbatch = "UnBatcher", zip = "Zipper",
})

return IterDataPipe
