-- samplers.lua - samplers, which determine the order in which a loader takes a dataset's items.
--
-- A sampler has a length and `iter`, which returns a function that returns one position at each
-- call. The public samplers in this file, except BatchSampler, also have `indices`, which returns
-- all positions at once as a 1-d int64 tensor on the CPU, whatever the default device is. With
-- `indices`, a loader need not call a Lua function for each item.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

--- The base of samplers, which choose positions of a dataset's items. A user-defined class has
--- `iter`, which returns an iterator over positions from 1, and `__len`.
---
---     local Even = torch.class("Even", torch.data.Sampler)
---     function Even:__init(n) self.n = n end
---     function Even:iter()
---        local i = 0
---        return function()
---           i = i + 2
---           return i <= self.n and i or nil
---        end
---     end
---     local dataset = torch.data.TensorDataset(torch.arange(10, 70, 10))
---     local options = {sampler = Even(6), batch_size = 3}
---     local loader = torch.data.DataLoader(dataset, options)
---     for x in loader:iter() do print(x) end
---     --> tensor([20, 40, 60])
---@class data.Sampler
---@field indices fun(self): Tensor  the positions of an epoch, in their order; a user-defined
--- class that has `iter` need not have it
local Sampler = class.class("data.Sampler")
M.Sampler = Sampler

--- Iterates over the positions.
---@return fun(): integer?
function Sampler:iter()
   local list = self:indices():tolist()
   local i = 0
   return function()
      i = i + 1
      return list[i]
   end
end

-- Raises an error unless a value has a length, as datasets and samplers do.
local function check_length(name, what, value)
   local meta = type(value) == "table" and getmetatable(value)
   local has_length = torch.is_tensor(value) or type(value) == "table" and (not meta or meta.__len)
   if not has_length then args.refuse(name, what, "an object with a length", value) end
end

-- Returns the length of a dataset, which a user's metamethod __len computes.
local function length_of(dataset)
   local n = #dataset
   if math.type(n) ~= "integer" or n < 0 then
      args.refuse(torch.type(dataset) .. ".__len", "result", "an integer of at least 0", n)
   end
   return n
end

-- A sampler that returns the elements of a list.
local List = class.class("data.Sampler.List", Sampler)

function List:__init(list)
   self.list = list
end

function List:__len()
   return #self.list
end

function List:iter()
   local i = 0
   return function()
      i = i + 1
      return self.list[i]
   end
end

--- Returns a loader's sampler for the option `what`, for which the user may also have given a plain
--- list: of positions or, if `batches`, of lists of positions.
---@param name string  the function, for messages
---@param what string
---@param value any
---@param batches boolean
---@return data.Sampler
function M._given(name, what, value, batches)
   if type(value) == "table" and value.iter then return value end
   if type(value) ~= "table" or getmetatable(value) then
      args.refuse(name, what, batches and "a sampler, or a list of lists of positions"
         or "a sampler, such as data.SubsetRandomSampler(positions), or a list of positions", value)
   end
   for i, element in ipairs(value) do
      local fits = math.type(element) == "integer"
      if batches then fits = type(element) == "table" or torch.is_tensor(element) end
      if not fits then
         args.refuse(name, ("%s[%d]"):format(what, i), batches and "a list of positions"
            or "an integer", element)
      end
   end
   return List(value)
end

local function check_count(name, what, value)
   local n = math.tointeger(value)
   if not n or n < 0 then args.refuse(name, what, "an integer of at least 0", value) end
   return n
end

--- A sampler that returns the positions of all items in order.
---
---     local sampler = torch.data.SequentialSampler {"a", "b", "c"}
---     for i in sampler:iter() do print(i) end
---     --> 1
---     --> 2
---     --> 3
---@class data.SequentialSampler: data.Sampler
---@overload fun(dataset: data.Dataset): data.SequentialSampler
M.SequentialSampler = class.class("data.SequentialSampler", Sampler)

function M.SequentialSampler:__init(dataset)
   check_length("data.SequentialSampler", "dataset", dataset)
   self.dataset = dataset
end

function M.SequentialSampler:__len()
   return length_of(self.dataset)
end

function M.SequentialSampler:indices()
   return torch.arange(1, length_of(self.dataset) + 1, {device = "cpu"})
end

local take_random = args.signature [[data.RandomSampler(dataset: any, replacement: boolean = false,
   num_samples: count?, generator: any?)]]

--- A sampler that returns the positions of all items, or of num_samples items, in random order.
--- With `replacement` each position is drawn from all items, so positions may repeat. Without it, a
--- position repeats only if num_samples exceeds the number of items.
---
---     torch.manual_seed(0)
---     local sampler, sum = torch.data.RandomSampler {"a", "b", "c"}, 0
---     for i in sampler:iter() do sum = sum + i end -- each position once
---     print(#sampler, sum)
---     --> 3	6
---@class data.RandomSampler: data.Sampler
---@overload fun(dataset: data.Dataset, options?: table): data.RandomSampler
M.RandomSampler = class.class("data.RandomSampler", Sampler)

function M.RandomSampler:__init(...)
   local a = take_random(...)
   check_length("data.RandomSampler", "dataset", a.dataset)
   if length_of(a.dataset) == 0 and a.num_samples and a.num_samples > 0 then
      args.refuse("data.RandomSampler", "num_samples", "0, since the dataset is empty",
         a.num_samples)
   end
   self.dataset, self.replacement = a.dataset, a.replacement
   self.num_samples, self.generator = a.num_samples, a.generator
end

function M.RandomSampler:__len()
   return self.num_samples or length_of(self.dataset)
end

function M.RandomSampler:indices()
   local n, wanted = length_of(self.dataset), #self
   local options = {generator = self.generator, device = "cpu"}
   if self.replacement then return torch.randint(1, n + 1, {wanted}, options) end
   local order = torch.randperm(n, options)
   if wanted == n then return order end
   if wanted < n then return order:narrow(1, 1, wanted) end
   local rounds = {order}
   for _ = 2, -(-wanted // n) do rounds[#rounds + 1] = torch.randperm(n, options) end
   return torch.cat(rounds):narrow(1, 1, wanted)
end

--- A sampler that returns the positions of a given list in random order.
---
---     local sampler, sum = torch.data.SubsetRandomSampler {2, 5, 7}, 0
---     for i in sampler:iter() do sum = sum + i end
---     print(#sampler, sum)
---     --> 3	14
---@class data.SubsetRandomSampler: data.Sampler
---@overload fun(indices: Tensor|integer[], generator?): data.SubsetRandomSampler
M.SubsetRandomSampler = class.class("data.SubsetRandomSampler", Sampler)

local take_indices = args.signature
   "data.SubsetRandomSampler(indices: tensor|integers, generator: any?)"

function M.SubsetRandomSampler:__init(...)
   local a = take_indices(...)
   local indices, generator = a.indices, a.generator
   if type(indices) == "table" then
      indices = torch.tensor(indices, {dtype = "int64", device = "cpu"})
   end
   if not torch.is_tensor(indices) or indices:dim() ~= 1 then
      args.refuse("data.SubsetRandomSampler", "indices", "a list of positions", indices)
   end
   self.positions, self.generator = indices:cpu(), generator
end

function M.SubsetRandomSampler:__len()
   return self.positions:size(1)
end

function M.SubsetRandomSampler:indices()
   local positions = self.positions
   local order = torch.randperm(#self, {generator = self.generator, device = positions.device})
   return positions:index_select(1, order)
end

--- A sampler that returns num_samples positions, each drawn with a probability proportional to its
--- weight.
---
---     local sampler = torch.data.WeightedRandomSampler({0, 1, 0}, 4)
---     for i in sampler:iter() do print(i) end
---     --> 2
---     --> 2
---     --> 2
---     --> 2
---@class data.WeightedRandomSampler: data.Sampler
---@overload fun(weights, num_samples: integer, options?): data.WeightedRandomSampler
M.WeightedRandomSampler = class.class("data.WeightedRandomSampler", Sampler)

local take_weighted = args.signature [[data.WeightedRandomSampler(weights: tensor|numbers,
   num_samples: count, replacement: boolean = true, generator: any?)]]

function M.WeightedRandomSampler:__init(...)
   local a = take_weighted(...)
   if type(a.weights) == "table" then
      a.weights = torch.tensor(a.weights, {dtype = "float64", device = "cpu"})
   end
   self.weights, self.num_samples = a.weights, a.num_samples
   self.replacement, self.generator = a.replacement, a.generator
end

function M.WeightedRandomSampler:__len()
   return self.num_samples
end

function M.WeightedRandomSampler:indices()
   return torch.multinomial(self.weights, self.num_samples, self.replacement,
      {generator = self.generator}):cpu()
end

--- Groups the positions of another sampler into lists of batch_size positions.
---
---     local order = torch.data.SequentialSampler {"a", "b", "c"}
---     for batch in torch.data.BatchSampler(order, 2, false):iter() do
---        print(batch)
---     end
---     --> tensor([1, 2])
---     --> tensor([3])
---@class data.BatchSampler: data.Sampler
---@overload fun(sampler: data.Sampler, batch_size: integer, drop_last?): data.BatchSampler
M.BatchSampler = class.class("data.BatchSampler", Sampler)

function M.BatchSampler:__init(sampler, batch_size, drop_last)
   self.batch_size = check_count("data.BatchSampler", "batch_size", batch_size)
   if self.batch_size == 0 then
      args.refuse("data.BatchSampler", "batch_size", "at least 1", batch_size)
   end
   if type(sampler) ~= "table" or not sampler.iter then
      args.refuse("data.BatchSampler", "sampler", "a sampler", sampler)
   end
   self.sampler, self.drop_last = sampler, drop_last or false
end

function M.BatchSampler:__len()
   local n = #self.sampler
   if self.drop_last then return n // self.batch_size end
   return -(-n // self.batch_size)
end

-- Iterates over a tensor of positions, batch_size positions at a time.
local function iterate_tensor(self)
   local positions = self.sampler:indices()
   local n, start = positions:size(1), 1
   return function()
      local count = math.min(self.batch_size, n - start + 1)
      if count <= 0 or self.drop_last and count < self.batch_size then return nil end
      local batch = positions:narrow(1, start, count)
      start = start + count
      return batch
   end
end

--- Iterates over the batches: they are 1-d int64 tensors if the sampler has `indices`, otherwise
--- lists.
---@return fun(): Tensor|integer[]?
function M.BatchSampler:iter()
   if self.sampler.indices then return iterate_tensor(self) end
   local next_position = self.sampler:iter()
   return function()
      local batch = {}
      while #batch < self.batch_size do
         local position = next_position()
         if position == nil then break end
         batch[#batch + 1] = position
      end
      if #batch == 0 or self.drop_last and #batch < self.batch_size then return nil end
      return batch
   end
end

return M
