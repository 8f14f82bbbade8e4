-- hetero.lua - HeteroConv, which applies one layer to each edge type.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local nn = torch.nn

local M = {}

local signature = args.signature "graphs.nn.HeteroConv(convs: table, aggr: string = 'sum')"

--- Applies one layer to each edge type. `aggr` selects how the results of edge types with the same
--- target type are reduced: "sum", "mean", "max", "min", "mul" or "cat". `convs` maps the names of
--- edge types, such as "author__writes__paper", to layers.
---
---     local N = torch.graphs.nn
---     local conv = N.HeteroConv {
---        a__to__b = N.SAGEConv({3, 4}, 2), b__to__b = N.GCNConv(4, 2),
---     }
---     local x = {a = torch.ones(2, 3), b = torch.ones(3, 4)}
---     local edges = torch.tensor {{1, 2}, {1, 2}}
---     print(conv(x, {a__to__b = edges, b__to__b = edges}).b.shape)
---     --> torch.Size([3, 2])
---@class graphs.nn.HeteroConv: nn.Module
---@field convs nn.ModuleDict  the layers
---@overload fun(convs: table<string, nn.Module>, aggr?: string): graphs.nn.HeteroConv
local HeteroConv = class.class("graphs.nn.HeteroConv", nn.Module)
M.HeteroConv = HeteroConv

local reductions <const> = {
   sum = function(x) return x:sum(1) end, add = function(x) return x:sum(1) end,
   mean = function(x) return x:mean(1) end, max = function(x) return x:amax(1) end,
   min = function(x) return x:amin(1) end, mul = function(x) return x:prod(1) end,
}

local function parts_of(name)
   local source, relation, target = name:match "^(.-)__(.-)__(.*)$"
   if not source then
      args.refuse("graphs.nn.HeteroConv", "convs", "names such as author__writes__paper", name)
   end
   return source, relation, target
end

-- Returns the name that an edge type has in the state dicts of PyTorch Geometric, such as
-- "<author___writes___paper>".
local function path_of(name) return "<" .. table.concat({parts_of(name)}, "___") .. ">" end

---@param convs table<string, nn.Module>  the layer of each type of edges
---@param aggr? string
function HeteroConv:__init(...)
   nn.Module.__init(self)
   local a = signature(...)
   if a.aggr ~= "cat" and not reductions[a.aggr] then
      args.refuse("graphs.nn.HeteroConv", "aggr", "sum, add, mean, max, min, mul or cat", a.aggr)
   end
   self.aggr = a.aggr
   local names = {}
   for name in pairs(a.convs) do names[#names + 1] = tostring(name) end
   table.sort(names)
   rawset(self, "_names", names)
   self.convs = nn.ModuleDict {}
   for _, name in ipairs(names) do self.convs:set(path_of(name), a.convs[name]) end
end

--- Sets the parameters to new initial values.
function HeteroConv:reset_parameters()
   for _, conv in ipairs(self.convs:values()) do conv:reset_parameters() end
end

local forward = args.signature [[graphs.nn.HeteroConv.forward(x_dict: table,
   edge_index_dict: table, edge_weight_dict: table?, edge_attr_dict: table?)]]

---@param x_dict table<string, Tensor>  the features of each type of nodes
---@param edge_index_dict table<string, Tensor>  the edges of each type
---@param edge_weight_dict? table<string, Tensor>
---@param edge_attr_dict? table<string, Tensor>
---@return table<string, Tensor>  the results of types of nodes at which edges end
function HeteroConv:forward(...)
   local a = forward(...)
   local found = {}
   for _, name in ipairs(self._names) do
      local edge_index = a.edge_index_dict[name]
      if edge_index ~= nil then
         local source, _, target = parts_of(name)
         for _, which in ipairs {source, target} do
            if a.x_dict[which] == nil then
               torch.raise(("graphs.nn.HeteroConv: x_dict: expected features of %s, for %s"):format(
                  which, name))
            end
         end
         local x = a.x_dict[source]
         if source ~= target then x = {x, a.x_dict[target]} end
         local options = {edge_weight = a.edge_weight_dict and a.edge_weight_dict[name],
            edge_attr = a.edge_attr_dict and a.edge_attr_dict[name]}
         if next(options) == nil then options = nil end
         local list = {x, edge_index}
         list[3] = options
         local out = self.convs[path_of(name)](table.unpack(list))
         found[target] = found[target] or {}
         table.insert(found[target], out)
      end
   end
   local results = {}
   for target, list in pairs(found) do
      if #list == 1 then
         results[target] = list[1]
      elseif self.aggr == "cat" then
         results[target] = torch.cat(list, -1)
      else
         results[target] = reductions[self.aggr](torch.stack(list))
      end
   end
   return results
end

return M
