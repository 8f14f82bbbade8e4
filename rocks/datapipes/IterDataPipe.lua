-- IterDataPipe.lua - the base of iterable pipes: streams, each of which may read from others. Each
-- step has a class in torch.data.datapipes.iter and a functional form:
--
--    local pipe = torch.data.datapipes.iter.IterableWrapper {1, 2, 3, 4, 5, 6}
--    local function is_even(x) return x % 2 == 0 end
--    pipe = pipe:map(function(x) return x * x end):filter(is_even):batch(2)
--    for batch in pipe:iter() do ... end      -- {4, 16}, {36}
--
-- A user-defined class has `iter`, like an IterableDataset, and `reset` if it keeps state from one
-- iteration to the next. An item is one value or several; a first value of nil is the end. In a
-- table, such as a batch, an item of several values is stored as by table.pack.
--
-- A pipe allows one iteration at a time: starting another one ends the first, and then the first
-- one's next item is an error.

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
---@field batch fun(self, batch_size: integer, drop_last?, wrapper_class?): data.IterDataPipe
---@field collate fun(self, conversion?, collate_fn?): data.IterDataPipe
---@field concat fun(self, ...: data.IterDataPipe): data.IterDataPipe
---@field demux fun(self, num_instances: integer, classifier_fn, ...): data.IterDataPipe ...
---@field filter fun(self, filter_fn: function, input_col?): data.IterDataPipe
---@field fork fun(self, num_instances: integer, ...): data.IterDataPipe ...
---@field groupby fun(self, group_key_fn: function, options?: table): data.IterDataPipe
---@field list_files fun(self, masks?, options?: table): data.IterDataPipe
---@field map fun(self, fn: function, input_col?, output_col?): data.IterDataPipe
---@field mux fun(self, ...: data.IterDataPipe): data.IterDataPipe
---@field open_files fun(self, mode?: string, length?: integer): data.IterDataPipe
---@field read_from_stream fun(self, chunk?: integer): data.IterDataPipe
---@field sharding_filter fun(self, sharding_group_filter?: integer): data.IterDataPipe
---@field shuffle fun(self, options?: table): data.IterDataPipe
---@field unbatch fun(self, unbatch_level?: integer): data.IterDataPipe
---@field zip fun(self, ...: data.IterDataPipe): data.IterDataPipe
local IterDataPipe = class.class("data.IterDataPipe", IterableDataset)

-- Wraps this class and derived classes: they allow one iteration at a time, and check
-- non_deterministic.
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

--- Called when an iteration begins, for pipes that keep state from one iteration to the next.
function IterDataPipe:reset() end

function IterDataPipe:__len()
   torch.raise(("%s has no length"):format(torch.type(self)))
end

--- Narrows the declared type of the items, for validation.
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

forms.install(IterDataPipe, "tlua.datapipes.iter", {
   batch = "Batcher", collate = "Collator", concat = "Concater", demux = "Demultiplexer",
   filter = "Filter", fork = "Forker", groupby = "Grouper", list_files = "FileLister",
   map = "Mapper", mux = "Multiplexer", open_files = "FileOpener",
   read_from_stream = "StreamReader", sharding_filter = "ShardingFilter", shuffle = "Shuffler",
   unbatch = "UnBatcher", zip = "Zipper",
})

return IterDataPipe
