-- HeteroData.lua - the class of a graph whose nodes and edges have types.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local Data = require "tlua.graphs.data.Data"

--- A graph whose nodes and edges have types. `data.paper` or `data["paper"]` holds the attributes
--- of one node type, and `data[{"author", "writes", "paper"}]` the attributes of one edge type;
--- each is created on first access. `data.x_dict` and `data.edge_index_dict` map each type to its
--- value of the attribute x or edge_index. Their keys write an edge type as
--- "author__writes__paper".
---
---     local data = torch.graphs.data.HeteroData()
---     data.paper.x = torch.ones(3, 4)
---     data.author.x = torch.ones(2, 2)
---     local edges = torch.tensor {{1, 2}, {3, 1}}
---     data[{"author", "writes", "paper"}].edge_index = edges
---     print(data.num_nodes, data.num_edges, data.paper.num_features)
---     --> 5	2	4
---@class graphs.data.HeteroData
---@field node_types string[]  the types of nodes
---@field edge_types string[][]  the types of edges, each a list of source, relation and target
---@field num_nodes integer  the total number of nodes
---@field num_edges integer  the total number of edges
---@overload fun(): graphs.data.HeteroData
local HeteroData = class.class "graphs.data.HeteroData"

local join <const> = "__"

-- Converts an edge type, a list such as {"author", "writes", "paper"}, to its name
-- "author__writes__paper".
local function name_of(key)
   if type(key) == "string" then return key end
   local fits = type(key) == "table" and (#key == 2 or #key == 3)
   for i = 1, fits and #key or 0 do fits = fits and type(key[i]) == "string" end
   if not fits then
      args.refuse("graphs.data.HeteroData", "key",
         "the name of a node type, or a list of source, relation and target", key)
   end
   if #key == 2 then return key[1] .. join .. "to" .. join .. key[2] end
   return table.concat(key, join)
end

local properties = {}

local function sum_of(self, what, is_edges)
   local total = 0
   for _, name in ipairs(self._order) do
      if (self._kinds[name] ~= false) == is_edges then
         total = total + (self._store[name][what] or 0)
      end
   end
   return total
end

function properties.node_types(self)
   local list = {}
   for _, name in ipairs(self._order) do
      if not self._kinds[name] then list[#list + 1] = name end
   end
   return list
end

function properties.edge_types(self)
   local list = {}
   for _, name in ipairs(self._order) do
      if self._kinds[name] then list[#list + 1] = self._kinds[name] end
   end
   return list
end

function properties.num_nodes(self) return sum_of(self, "num_nodes", false) end

function properties.num_edges(self) return sum_of(self, "num_edges", true) end

-- Returns the Data object that holds a type's attributes. It is created on first access.
local function part(self, key)
   local name = name_of(key)
   local store = rawget(self, "_store")
   if not store[name] then
      store[name] = Data()
      self._order[#self._order + 1] = name
      local kind = false
      if type(key) == "table" then
         kind = #key == 2 and {key[1], "to", key[2]} or {key[1], key[2], key[3]}
      elseif name:find(join, 1, true) then
         kind = {name:match "^(.-)__(.-)__(.*)$"}
      end
      self._kinds[name] = kind
   end
   return store[name]
end

class.index_by(HeteroData, function(cls)
   return function(self, name)
      local value = cls[name]
      if value ~= nil then return value end
      if rawget(self, "_store") == nil then return nil end
      if type(name) == "string" then
         if properties[name] then return properties[name](self) end
         local attribute = name:match "^(.+)_dict$"
         if attribute then return self:collect(attribute) end
         if name:sub(1, 1) == "_" then return nil end
      end
      return part(self, name)
   end
end)

function HeteroData:__newindex(name, value)
   if type(name) == "string" and name:sub(1, 1) == "_" then
      rawset(self, name, value)
      return
   end
   torch.raise(("graphs.data.HeteroData: %s: expected attributes to be set in a type, as in "
      .. "data.paper.x = ..."):format(type(name) == "table" and name_of(name) or tostring(name)))
end

function HeteroData:__init()
   rawset(self, "_store", {})
   rawset(self, "_order", {})
   rawset(self, "_kinds", {})
end

-- Gives a node type or edge type the attributes of a Data object in place of its own.
function HeteroData:_put(key, data)
   part(self, key)
   self._store[name_of(key)] = data
end

function HeteroData:__tostring()
   local parts = {}
   for _, name in ipairs(self._order) do
      parts[#parts + 1] = ("  %s=%s"):format(name, (tostring(self._store[name]):gsub("^Data", "")))
   end
   return ("HeteroData(\n%s\n)"):format(table.concat(parts, ",\n"))
end

--- Returns a table that maps the name of each type to its value of an attribute. Types without the
--- attribute are left out.
---@param key string
---@return table<string, any>
function HeteroData:collect(key)
   local found = {}
   for _, name in ipairs(self._order) do found[name] = self._store[name]:get(key) end
   return found
end

--- Returns the node types and the edge types.
---@return string[]
---@return string[][]
function HeteroData:metadata() return self.node_types, self.edge_types end

--- Moves the tensors to a device or casts them, as Tensor.to does, and returns the graph.
---@param ... any
---@return graphs.data.HeteroData
function HeteroData:to(...)
   for _, name in ipairs(self._order) do self._store[name]:to(...) end
   return self
end

--- Checks the edges. Raises an error if the node at an end of an edge does not exist. The ends must
--- be nodes of the source type and of the target type.
---@return boolean
function HeteroData:validate()
   for _, name in ipairs(self._order) do
      local kind, store = self._kinds[name], self._store[name]
      if kind then
         local title = "graphs.data.HeteroData: " .. name
         local edge_index = checks.edges(title, store:get "edge_index")
         for row, which in ipairs {kind[1], kind[3]} do
            local nodes = self._store[which]
            if not nodes then torch.raise(("%s: there is no node type %s"):format(title, which)) end
            checks.range(title, ("edge_index[%d]"):format(row), edge_index[row],
               nodes.num_nodes or 0)
         end
      end
   end
   return true
end

return HeteroData
