-- Batch.lua - joins several graphs into one graph. Its adjacency matrix is block-diagonal, with one
-- block for each graph.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Data = require "tlua.graphs.data.Data"

--- Several graphs as one graph, in which no edge connects different graphs. `batch` has the number
--- of each node's graph, and graph i has the nodes from ptr[i] to ptr[i + 1] - 1.
---
---     local D = torch.graphs.data
---     local edges = torch.tensor {{1}, {2}}
---     local one = D.Data {x = torch.ones(2, 1), edge_index = edges}
---     local batch = D.Batch.from_data_list {one, one}
---     print(batch.batch, batch.edge_index[1])
---     --> tensor([1, 1, 2, 2])	tensor([1, 3])
---@class graphs.data.Batch: graphs.data.Data
---@field batch Tensor  (nodes) int64: the graph of each node
---@field ptr Tensor  (graphs + 1) int64: the first node of each graph
---@field num_graphs integer  the number of graphs
---@field batch_size integer  the number of graphs
local Batch = class.class("graphs.data.Batch", Data)

local properties = setmetatable({}, {__index = Data._properties})
Batch._properties = properties

function properties.num_graphs(self)
   local count = rawget(self, "_count")
   if count then return count end
   local batch = rawget(self, "_store").batch
   return batch and batch:numel() > 0 and batch:max():item() or 0
end

properties.batch_size = properties.num_graphs

local function refuse(name, expected, value)
   args.refuse("graphs.data.Batch.from_data_list", name, expected, value)
end

-- Concatenates the values of the attribute `name` in dimension `dim`. Returns the result, and the
-- size of each value in this dimension.
local function join(name, values, dim)
   local sizes = {}
   local list = {}
   for i, value in ipairs(values) do
      if dim == nil then value = value:unsqueeze(1) end
      if value:dim() == 0 then value = value:unsqueeze(1) end
      list[i], sizes[i] = value, value:size(dim or 1)
      local first = list[1]
      local axis = (dim or 1) < 0 and value:dim() + dim + 1 or dim or 1
      local fits = value:dim() == first:dim() and value.device == first.device
      for k = 1, fits and value:dim() or 0 do
         fits = fits and (k == axis or value:size(k) == first:size(k))
      end
      if not fits then
         torch.raise(("graphs.data.Batch.from_data_list: %s: expected shapes that can be joined in "
            .. "dimension %d, on one device, got %s of graph 1 and %s of graph %d"):format(name,
            axis, args.describe(values[1]), args.describe(values[i]), i))
      end
   end
   return torch.cat(list, dim or 1), sizes
end

local function vector_of(counts, device)
   local numbers = torch.arange(1, #counts + 1, {device = device})
   return numbers:repeat_interleave(torch.tensor(counts, {dtype = "int64", device = device}))
end

local function pointers_of(counts, device)
   local list, sum = {1}, 1
   for i, count in ipairs(counts) do
      sum = sum + count
      list[i + 1] = sum
   end
   return torch.tensor(list, {dtype = "int64", device = device})
end
Batch._vector_of, Batch._pointers_of = vector_of, pointers_of

-- Joins the values that the graphs have for one attribute. Returns the joined value, and a table
-- from which `separate` learns how to split it again.
local function collate(name, graphs, values, inc)
   local first = values[1]
   if torch.is_tensor(first) then
      local dim = graphs[1]:__cat_dim__(name, first)
      local shift, shifts, list = 0, {}, {}
      for i, value in ipairs(values) do
         if not torch.is_tensor(value) then
            refuse(name, "a tensor in each graph", value)
         end
         shifts[i] = shift
         local moved = torch.is_tensor(shift) or shift ~= 0
         list[i] = moved and value + shift or value
         shift = shift + inc(graphs[i], name, value)
      end
      local out, sizes = join(name, list, dim)
      return out, {dim = dim or false, sizes = sizes, shifts = shifts, scalar = first:dim() == 0}
   end
   if type(first) == "number" then
      for i = 2, #values do
         if type(values[i]) ~= "number" then
            refuse(name, "a number in each graph", values[i])
         end
      end
      return torch.tensor(values), {list = values}
   end
   if type(first) == "boolean" then return torch.tensor(values), {list = values} end
   return values, {list = values}
end
Batch._collate = collate

local function increment(graph, name, value) return graph:__inc__(name, value) end

-- Returns the names of the attributes, without those in `excluded`. All graphs must have the same
-- attributes.
local function names_of(list, excluded)
   local names = {}
   for _, name in ipairs(list[1]:keys()) do
      if not excluded[name] then names[#names + 1] = name end
   end
   for i, graph in ipairs(list) do
      for _, name in ipairs(names) do
         if not graph:has(name) then
            torch.raise(("graphs.data.Batch.from_data_list: expected the same attributes in each "
               .. "graph; graph 1 has %s, graph %d lacks it"):format(name, i))
         end
      end
      for _, name in ipairs(graph:keys()) do
         if not excluded[name] and not list[1]:has(name) then
            torch.raise(("graphs.data.Batch.from_data_list: expected the same attributes in each "
               .. "graph; graph %d has %s, graph 1 lacks it"):format(i, name))
         end
      end
   end
   return names
end

local function set_of(list)
   local set = {}
   for _, name in ipairs(list or {}) do set[name] = true end
   return set
end

local take_list = args.signature [[graphs.data.Batch.from_data_list(data_list: any,
   follow_batch: any?, exclude_keys: any?)]]

--- Joins graphs.
---@param data_list graphs.data.Data[]
---@param follow_batch? string[]  attributes that get batch vectors of their own
---@param exclude_keys? string[]  attributes that are left out
---@return graphs.data.Batch
function Batch.from_data_list(...)
   local a = take_list(...)
   local list = a.data_list
   if type(list) ~= "table" or getmetatable(list) or #list == 0 then
      refuse("data_list", "a list of graphs", list)
   end
   local first = list[1]
   if type(first) == "table" and first._hetero_batch then return first._hetero_batch(a) end
   for i = 1, #list do
      local graph = list[i]
      if type(graph) ~= "table" or not getmetatable(graph) or not graph._is_graph then
         refuse("data_list", "a list of graphs.data.Data", graph)
      end
   end
   local batch = Batch()
   rawset(batch, "_class", getmetatable(first))
   rawset(batch, "_count", #list)
   local parts, followed = {}, set_of(a.follow_batch)
   local names = names_of(list, set_of(a.exclude_keys))
   local counts, device = {}, nil
   for i, graph in ipairs(list) do counts[i] = graph.num_nodes end
   for _, name in ipairs(names) do
      local values = {}
      for i, graph in ipairs(list) do values[i] = graph:get(name) end
      if name == "num_nodes" then
         local sum = 0
         for _, count in ipairs(counts) do sum = sum + count end
         batch.num_nodes = sum
         parts[name] = {list = values}
      else
         local value, part = collate(name, list, values, increment)
         if torch.is_tensor(value) and not device and torch.is_tensor(values[1]) then
            device = value.device
         end
         rawget(batch, "_store")[name] = value
         batch._order[#batch._order + 1] = name
         parts[name] = part
         if followed[name] and part.sizes then
            batch[name .. "_batch"] = vector_of(part.sizes, value.device)
            batch[name .. "_ptr"] = pointers_of(part.sizes, value.device)
         end
      end
   end
   rawset(batch, "_parts", parts)
   rawset(batch, "_names", names)
   if #counts == #list then
      batch.batch = vector_of(counts, device)
      batch.ptr = pointers_of(counts, device)
   end
   return batch
end

-- Returns the part of a joined attribute that belongs to graph i. `part` is the second result of
-- `collate`.
local function separate(part, value, i)
   if part.list then
      return part.list[i]
   end
   local start = 1
   for k = 1, i - 1 do start = start + part.sizes[k] end
   local dim = part.dim or 1
   local piece = value:narrow(dim, start, part.sizes[i])
   if not part.dim then piece = piece:squeeze(1) end
   local shift = part.shifts[i]
   if torch.is_tensor(shift) then return piece - shift:to(piece.device) end
   return shift ~= 0 and piece - shift or piece
end
Batch._separate = separate

--- Returns graph i, with its nodes numbered from 1.
---@param i integer  from 1; negative numbers count from the end
---@return graphs.data.Data
function Batch:get_example(i)
   local parts = rawget(self, "_parts")
   if not parts then
      torch.raise "graphs.data.Batch:get_example: expected a batch that from_data_list has made"
   end
   local n, given = self.num_graphs, i
   if math.type(i) == "integer" and i < 0 then i = n + i + 1 end
   if math.type(i) ~= "integer" or i < 1 or i > n then
      args.refuse("graphs.data.Batch:get_example", "i", ("a graph from 1 to %d"):format(n), given)
   end
   local cls = rawget(self, "_class")
   local graph = setmetatable({}, cls)
   rawset(graph, "_store", {})
   rawset(graph, "_order", {})
   for _, name in ipairs(rawget(self, "_names")) do
      graph[name] = separate(parts[name], self._store[name], i)
   end
   return graph
end

--- Returns the graphs of the batch.
---@return graphs.data.Data[]
function Batch:to_data_list()
   local list = {}
   for i = 1, self.num_graphs do list[i] = self:get_example(i) end
   return list
end

function Batch:__tostring()
   return (Data.__tostring(self):gsub("^%w+", rawget(self, "_class")
      and rawget(self, "_class").__name:match "[%w_]+$" .. "Batch" or "Batch", 1))
end

return Batch
