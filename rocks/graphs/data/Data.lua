-- Data.lua - the class of a graph with its attributes.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local edges = require "tlua.graphs.utils.edges"
local subgraphs = require "tlua.graphs.utils.subgraphs"

--- A graph. Its attributes are node features `x`, edges `edge_index`, edge features `edge_attr`,
--- targets `y`, positions `pos`, and further attributes by their names. An attribute whose name
--- contains "edge" has a row for each edge. The fields num_nodes, num_edges, num_features,
--- num_node_features, num_edge_features and num_classes are computed on access. num_nodes can also
--- be assigned.
---
---     local data = torch.graphs.data.Data {x = torch.ones(3, 2),
---        edge_index = torch.tensor {{1, 2}, {2, 3}}}
---     print(data, data.num_nodes, data:is_undirected())
---     --> Data(x=[3, 2], edge_index=[2, 2])	3	false
---@class graphs.data.Data
---@field x Tensor?  (nodes, features)
---@field edge_index Tensor?  (2, edges) int64: the sources and the targets of edges, from 1
---@field edge_attr Tensor?  (edges, features)
---@field y any  targets
---@field pos Tensor?  (nodes, dimensions)
---@field num_nodes integer?  the number of nodes
---@field num_edges integer  the number of edges
---@field num_features integer  the number of features of a node
---@field num_node_features integer  the number of features of a node
---@field num_edge_features integer  the number of features of an edge
---@field num_classes integer  the greatest class of y, or the width of y if y is a matrix
---@overload fun(x?: Tensor|table, edge_index?: Tensor, edge_attr?: Tensor, options?: table):
--- graphs.data.Data
local Data = class.class "graphs.data.Data"
Data._is_graph = true

local first_names <const> = {"x", "edge_index", "edge_attr", "y", "pos"}
local is_first <const> = {}
for _, name in ipairs(first_names) do is_first[name] = true end

-- Attributes whose first dimension is the number of nodes.
local of_nodes <const> = {"x", "pos", "batch", "ptr_nodes", "z"}

local is_tensor <const> = torch.is_tensor

local properties = {}

function properties.num_nodes(self)
   local store = rawget(self, "_store")
   if store.num_nodes ~= nil then return store.num_nodes end
   for _, name in ipairs(of_nodes) do
      local value = store[name]
      if is_tensor(value) and value:dim() > 0 then
         return value:size(self:__cat_dim__(name, value) or 1)
      end
   end
   for _, name in ipairs(self._order) do
      local value = store[name]
      if name:find("node", 1, true) and is_tensor(value) and value:dim() > 0 then
         return value:size(1)
      end
   end
   local edge_index = store.edge_index
   if is_tensor(edge_index) then
      return edge_index:numel() > 0 and edge_index:max():item() or 0
   end
   return nil
end

function properties.num_edges(self)
   local store = rawget(self, "_store")
   for _, name in ipairs(self._order) do
      local value = store[name]
      if is_tensor(value) and name:find("edge", 1, true) and value:dim() > 0 then
         return value:size(self:__cat_dim__(name, value) or 1)
      end
   end
   return 0
end

local function width(value)
   if not is_tensor(value) then return 0 end
   return value:dim() == 1 and 1 or value:size(-1)
end

function properties.num_node_features(self) return width(rawget(self, "_store").x) end

properties.num_features = properties.num_node_features

function properties.num_edge_features(self) return width(rawget(self, "_store").edge_attr) end

function properties.num_classes(self)
   local y = rawget(self, "_store").y
   if not is_tensor(y) or y:numel() == 0 then return 0 end
   return y:dim() == 2 and y:size(2) > 1 and y:size(2) or math.tointeger(y:max():item()) or 0
end

Data._properties = properties

class.index_by(Data, function(cls)
   return function(self, name)
      local value = cls[name]
      if value ~= nil then return value end
      local store = rawget(self, "_store")
      if store == nil then return nil end
      value = store[name]
      if value ~= nil then return value end
      local property = cls._properties[name]
      if property then return property(self) end
      if is_first[name] or type(name) ~= "string" or name:sub(1, 1) == "_" then return nil end
      local kept = table.concat(self._order, ", ")
      torch.raise(("%s: no attribute '%s'; there are: %s"):format(torch.type(self), name,
         kept == "" and "none" or kept))
   end
end)

function Data:__newindex(name, value)
   if type(name) ~= "string" then
      torch.raise(("%s: expected a string as the name of an attribute, got %s"):format(
         torch.type(self), args.describe(name)))
   end
   if name:sub(1, 1) == "_" then
      rawset(self, name, value)
      return
   end
   if self._properties[name] and name ~= "num_nodes" or getmetatable(self)[name] then
      torch.raise(("%s: %s cannot be set"):format(torch.type(self), name))
   end
   local store, order = self._store, self._order
   if store[name] == nil and value ~= nil then
      order[#order + 1] = name
   elseif value == nil and store[name] ~= nil then
      for i, key in ipairs(order) do
         if key == name then table.remove(order, i) break end
      end
   end
   store[name] = value
end

---@param x? Tensor|table  the features of nodes, or a table of all attributes
---@param edge_index? Tensor
---@param edge_attr? Tensor
---@param y? any
---@param pos? Tensor
---@param attributes? table<string, any>  attributes by name
function Data:__init(...)
   local title = self.__name
   rawset(self, "_store", {})
   rawset(self, "_order", {})
   local given = table.pack(...)
   local last, named = given[given.n], {}
   if type(last) == "table" and not getmetatable(last) and next(last) ~= nil and #last == 0 then
      named = last
      given.n = given.n - 1
   end
   if given.n > 5 then
      torch.raise(("%s: expected at most 5 arguments and a table, got %d"):format(title,
         given.n))
   end
   for i, name in ipairs(first_names) do
      local value = i <= given.n and given[i] or nil
      if value ~= nil and named[name] ~= nil then
         torch.raise(("%s: %s: given twice, by position and by name"):format(title, name))
      end
      if value == nil then value = named[name] end
      if i <= 3 and value ~= nil and not is_tensor(value) then
         args.refuse(title, name, "a tensor", value)
      end
      self[name] = value
   end
   local others = {}
   for name in pairs(named) do
      if not is_first[name] then others[#others + 1] = name end
   end
   table.sort(others, function(a, b) return tostring(a) < tostring(b) end)
   for _, name in ipairs(others) do self[name] = named[name] end
end

-- Returns the shape of a value in the notation in which PyTorch Geometric prints it.
local function shape_of(value)
   if is_tensor(value) then
      if value:dim() == 0 then return tostring(value:item()) end
      return "[" .. table.concat(value.shape, ", ") .. "]"
   end
   if type(value) == "table" and not getmetatable(value) then return "[" .. #value .. "]" end
   return tostring(value)
end
Data._shape_of = shape_of

function Data:__tostring()
   local parts = {}
   for _, name in ipairs(self._order) do
      parts[#parts + 1] = name .. "=" .. shape_of(self._store[name])
   end
   local title = torch.type(self):match "[%w_]+$"
   return ("%s(%s)"):format(title, table.concat(parts, ", "))
end

--- Returns the names of the attributes.
---@return string[]
function Data:keys() return {table.unpack(self._order)} end

--- Iterates over the names and values of the attributes.
---@return fun(): string?, any
function Data:items()
   local keys, i = self:keys(), 0
   return function()
      i = i + 1
      if keys[i] ~= nil then return keys[i], self._store[keys[i]] end
   end
end

--- Returns whether the graph has an attribute with the given name.
---@param name string
---@return boolean
function Data:has(name) return self._store[name] ~= nil end

--- Returns an attribute, or a default if there is none.
---@param name string
---@param default? any
---@return any
function Data:get(name, default)
   local value = self._store[name]
   if value == nil then return default end
   return value
end

--- Sets attributes from a table or from another graph, and returns the graph.
---@param attributes table<string, any>|graphs.data.Data
---@return graphs.data.Data
function Data:update(attributes)
   if type(attributes) == "table" and getmetatable(attributes) and attributes._is_graph then
      attributes = attributes._store
   end
   if type(attributes) ~= "table" or getmetatable(attributes) then
      args.refuse(torch.type(self) .. ":update", "attributes", "a table of attributes by name",
         attributes)
   end
   local names = {}
   for name in pairs(attributes) do
      if type(name) ~= "string" then
         args.refuse(torch.type(self) .. ":update", "attributes", "strings as names", name)
      end
      names[#names + 1] = name
   end
   table.sort(names)
   for _, name in ipairs(names) do self[name] = attributes[name] end
   return self
end

--- Returns a table of the attributes.
---@return table<string, any>
function Data:to_dict()
   local copy = {}
   for name, value in pairs(self._store) do copy[name] = value end
   return copy
end

--- Returns the dimension in which a batch concatenates an attribute. If the result is nil, a batch
--- stacks the values in a new first dimension instead. Derived classes may override this method.
---@param key string
---@param value any
---@return integer?
function Data:__cat_dim__(key, value) -- luacheck: no unused args
   if key:find("index", 1, true) or key == "face" then return -1 end
   return 1
end

--- Returns the number by which a batch must increase an attribute's values in all graphs after this
--- graph. For edge_index it is the number of nodes, since the nodes of all graphs are numbered one
--- after another. For most attributes it is 0. Derived classes may override this method.
---@param key string
---@param value any
---@return integer|Tensor
function Data:__inc__(key, value)
   if key:find("batch", 1, true) and is_tensor(value) then
      return value:numel() > 0 and math.tointeger(value:max():item()) or 0
   end
   if key:find("index", 1, true) or key == "face" then return self.num_nodes or 0 end
   return 0
end

-- Returns whether an attribute has n rows, one for each node or edge. `part`, "node" or "edge",
-- says which of both is meant.
local function has_rows(self, name, n, part)
   local value = self._store[name]
   if not is_tensor(value) or value:dim() == 0 then return false end
   if value:size(self:__cat_dim__(name, value) or 1) ~= n then return false end
   local of_edges = name:find("edge", 1, true) or name:find("index", 1, true)
   if n ~= (part == "edge" and self.num_nodes or self.num_edges) then
      return part == "edge" or not of_edges
   end
   return (of_edges ~= nil) == (part == "edge")
end

--- Returns whether an attribute belongs to nodes.
---@param name string
---@return boolean
function Data:is_node_attr(name)
   if name:find("edge_index", 1, true) then return false end
   return has_rows(self, name, self.num_nodes, "node")
end

--- Returns whether an attribute belongs to edges.
---@param name string
---@return boolean
function Data:is_edge_attr(name)
   if name == "edge_index" then return true end
   return has_rows(self, name, self.num_edges, "edge")
end

-- Returns a value in which fn(tensor) replaces each tensor.
local function map(value, fn)
   if is_tensor(value) then return fn(value) end
   if type(value) == "table" and not getmetatable(value) then
      local copy = {}
      for key, part in pairs(value) do copy[key] = map(part, fn) end
      return copy
   end
   return value
end
Data._map = map

--- Replaces each tensor of the graph by fn(tensor), and returns the graph.
---@param fn fun(tensor: Tensor): Tensor
---@return graphs.data.Data
function Data:apply(fn)
   if not args.is_callable(fn) then
      args.refuse(torch.type(self) .. ":apply", "fn", "a function", fn)
   end
   for _, name in ipairs(self:keys()) do self._store[name] = map(self._store[name], fn) end
   return self
end

--- Moves the tensors to a device or casts them, as Tensor.to does, and returns the graph.
---@param ... any
---@return graphs.data.Data
function Data:to(...)
   local wanted = table.pack(...)
   return self:apply(function(value) return value:to(table.unpack(wanted, 1, wanted.n)) end)
end

--- Moves the tensors to the CPU.
---@return graphs.data.Data
function Data:cpu() return self:to "cpu" end

--- Moves the tensors to a GPU.
---@param device? any
---@return graphs.data.Data
function Data:cuda(device) return self:to(device or "cuda") end

-- Returns a graph of the same class whose attributes have the same values.
local function copy_of(self)
   local copy = setmetatable({}, getmetatable(self))
   rawset(copy, "_store", {})
   rawset(copy, "_order", {})
   for key, value in next, self do
      if key ~= "_store" and key ~= "_order" then rawset(copy, key, value) end
   end
   for i, name in ipairs(self._order) do
      copy._order[i], copy._store[name] = name, self._store[name]
   end
   return copy
end

--- Returns a copy that shares its tensors.
---@return graphs.data.Data
function Data:copy() return copy_of(self) end

--- Returns a copy with copies of all tensors.
---@return graphs.data.Data
function Data:clone()
   return copy_of(self):apply(function(value) return value:clone() end)
end

--- Makes all tensors contiguous.
---@return graphs.data.Data
function Data:contiguous()
   return self:apply(function(value) return value:contiguous() end)
end

--- Checks the graph: the shape, the dtype and the node numbers of edge_index, and the number of
--- rows of edge attributes.
---@param raise_on_error? boolean  whether a mistake raises an error (the default) instead of
--- returning false
---@return boolean valid
---@return string? message  the first mistake
function Data:validate(raise_on_error)
   local function check()
      local title = torch.type(self)
      local n = self.num_nodes
      if n == nil then torch.raise(title .. ": num_nodes: unknown without x, pos or edge_index") end
      local edge_index = self._store.edge_index
      if edge_index == nil then return end
      checks.edges(title, edge_index)
      checks.range(title, "edge_index", edge_index, n)
      for _, name in ipairs {"edge_attr", "edge_weight"} do
         checks.edge_attr(title, edge_index, self._store[name], name)
      end
   end
   if raise_on_error == nil or raise_on_error then
      check()
      return true
   end
   local ok, message = pcall(check)
   return ok, not ok and message or nil
end

-- Structure ---------------------------------------------------------------------------------------

local function edges_of(self, method)
   local edge_index = self._store.edge_index
   if edge_index == nil then
      torch.raise(("%s:%s: expected edge_index, the graph has none"):format(torch.type(self),
         method))
   end
   return edge_index
end

--- Returns whether the reverse of each edge exists, with the same features.
---@return boolean
function Data:is_undirected()
   return edges.is_undirected(edges_of(self, "is_undirected"),
      {edge_attr = self._store.edge_attr, num_nodes = self.num_nodes})
end

--- Returns whether the reverse of any edge is missing.
---@return boolean
function Data:is_directed() return not self:is_undirected() end

--- Returns whether any node has no edge to or from another node.
---@return boolean
function Data:has_isolated_nodes()
   return edges.contains_isolated_nodes(edges_of(self, "has_isolated_nodes"), self.num_nodes)
end

--- Returns whether any edge has the same node at both ends.
---@return boolean
function Data:has_self_loops()
   return edges.contains_self_loops(edges_of(self, "has_self_loops"))
end

--- Returns whether the edges are sorted by their sources and contain no duplicates.
---@return boolean
function Data:is_coalesced()
   local edge_index = edges_of(self, "is_coalesced")
   local merged = edges.coalesce(edge_index, {num_nodes = self.num_nodes})
   return merged:equal(edge_index)
end

--- Returns a copy in which edges are sorted by their sources and duplicates are merged.
---@return graphs.data.Data
function Data:coalesce()
   local copy = copy_of(self)
   local edge_index, attr = edges.coalesce(edges_of(self, "coalesce"),
      {edge_attr = self._store.edge_attr, num_nodes = self.num_nodes})
   copy.edge_index = edge_index
   if attr then copy.edge_attr = attr end
   return copy
end

--- Returns the subgraph of the given nodes, which has the edges among them. The nodes are
--- renumbered from 1.
---@param subset Tensor|integer[]  nodes, or a mask
---@return graphs.data.Data
function Data:subgraph(subset)
   local n, title = self.num_nodes, torch.type(self) .. ":subgraph"
   local edge_index = edges_of(self, "subgraph")
   checks.range(title, "edge_index", edge_index, n)
   local mask, index = subgraphs.node_mask(title, "subset", subset, n, edge_index.device)
   local part, _, kept = subgraphs.subgraph(
      subset, edge_index, {relabel_nodes = true, num_nodes = n, return_edge_mask = true})
   local kinds = {}
   for name, value in self:items() do
      kinds[name] = name ~= "edge_index" and (self:is_edge_attr(name) and "edge"
         or self:is_node_attr(name) and "node") or nil
      if kinds[name] == nil and value == nil then kinds[name] = nil end
   end
   local copy = copy_of(self)
   for name, kind in pairs(kinds) do
      local value = self._store[name]
      local dim = self:__cat_dim__(name, value) or 1
      local places = kind == "edge" and kept:nonzero():view(-1) or index
      copy._store[name] = value:index_select(dim, places)
   end
   copy.edge_index = part
   if copy._store.num_nodes then copy.num_nodes = mask:sum():item() end
   return copy
end

--- Returns a copy of the graph with a subset of its edges.
---@param subset Tensor  positions of edges, or a mask
---@return graphs.data.Data
function Data:edge_subgraph(subset)
   local copy = copy_of(self)
   local title = torch.type(self) .. ":edge_subgraph"
   local edge_index = edges_of(self, "edge_subgraph")
   local _, index = subgraphs.node_mask(title, "subset", subset, edge_index:size(2),
      edge_index.device, "edges")
   for name, value in self:items() do
      if self:is_edge_attr(name) then
         copy._store[name] = value:index_select(self:__cat_dim__(name, value) or 1, index)
      end
   end
   return copy
end

return Data
