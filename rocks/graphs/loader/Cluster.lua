-- Cluster.lua - divides a large graph into parts with few edges between them, and makes batches of
-- parts (Cluster-GCN, Chiang et al., 2019).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"

local M = {}

-- Returns, for each node, the list of its neighbours. The direction of edges is ignored.
local function neighbours(edge_index, n)
   local list = {}
   for i = 1, n do list[i] = {} end
   local rows, cols = edge_index[1]:tolist(), edge_index[2]:tolist()
   for e = 1, #rows do
      local a, b = rows[e], cols[e]
      if a ~= b then
         list[a][#list[a] + 1] = b
         list[b][#list[b] + 1] = a
      end
   end
   return list
end

-- Returns all nodes in breadth-first order. When all nodes that can be reached have been visited,
-- the search continues at the first node that has not been reached.
local function by_breadth(list, n)
   local order, reached, next_start = {}, {}, 1
   local head = 1
   while #order < n do
      while reached[next_start] do next_start = next_start + 1 end
      reached[next_start] = true
      order[#order + 1] = next_start
      while head <= #order do
         for _, node in ipairs(list[order[head]]) do
            if not reached[node] then
               reached[node] = true
               order[#order + 1] = node
            end
         end
         head = head + 1
      end
   end
   return order
end

-- Returns the number of the part to which each node belongs. At first, a part consists of
-- consecutive nodes in breadth-first order. Then, in up to five passes, each node moves to the part
-- that contains most of its neighbours. A node only moves if the sizes of both parts stay within
-- about a tenth of the average size.
local function divide(edge_index, n, parts)
   local list = neighbours(edge_index, n)
   local part, sizes = {}, {}
   for p = 1, parts do sizes[p] = 0 end
   for i, node in ipairs(by_breadth(list, n)) do
      local p = (i - 1) * parts // n + 1
      part[node] = p
      sizes[p] = sizes[p] + 1
   end
   local most, least = math.ceil(1.1 * n / parts), math.floor(0.9 * n / parts)
   for _ = 1, 5 do
      local moved = false
      for node = 1, n do
         local own, counts = part[node], {}
         local best = own
         for _, other in ipairs(list[node]) do
            local p = part[other]
            counts[p] = (counts[p] or 0) + 1
            local more = counts[p] > (counts[best] or 0)
            if more and p ~= own and sizes[p] < most and sizes[own] > least then best = p end
         end
         if best ~= own and counts[best] > (counts[own] or 0) then
            part[node], moved = best, true
            sizes[own], sizes[best] = sizes[own] - 1, sizes[best] + 1
         end
      end
      if not moved then break end
   end
   return torch.tensor(part, {dtype = "int64"})
end

local take_data = args.signature [[graphs.loader.ClusterData(data: object, num_parts: count)]]

--- Divides a graph into `num_parts` parts of similar size with few edges between them. An item is
--- the graph of one part. (The division is a refined breadth-first search, not METIS.)
---
---     local data = torch.graphs.datasets.KarateClub():get(1)
---     local set = torch.graphs.loader.ClusterData(data, 2)
---     print(#set, set:get(1).num_nodes + set:get(2).num_nodes)
---     --> 2	34
---@class graphs.loader.ClusterData: data.Dataset
---@field part Tensor  (nodes) int64: the part of each node
---@overload fun(data: graphs.data.Data, num_parts: integer): graphs.loader.ClusterData
local ClusterData = class.class("graphs.loader.ClusterData", torch.data.Dataset)
M.ClusterData = ClusterData

---@param data graphs.data.Data
---@param num_parts integer  the number of parts
function ClusterData:__init(...)
   torch.data.Dataset.__init(self)
   local title <const> = "graphs.loader.ClusterData"
   local a = take_data(...)
   if not a.data._is_graph or not a.data.edge_index then
      args.refuse(title, "data", "a graph with edge_index", a.data)
   end
   local n, edge_index = a.data.num_nodes, checks.edges(title, a.data.edge_index)
   if a.num_parts < 1 or a.num_parts > n then
      args.refuse(title, "num_parts", ("from 1 to %d, the number of nodes"):format(n), a.num_parts)
   end
   checks.range(title, "edge_index", edge_index, n)
   self.data, self.num_parts = a.data, a.num_parts
   self.part = divide(edge_index, n, a.num_parts)
   local order = torch.argsort(self.part, {stable = true})
   self.nodes = order:split(torch.bincount(self.part, {minlength = a.num_parts}):tolist(), 1)
end

function ClusterData:__len() return self.num_parts end

--- Returns the graph of part i.
---@param i integer
---@return graphs.data.Data
function ClusterData:get(i)
   if not self.nodes[i] then
      args.refuse("graphs.loader.ClusterData:get", "i", ("a part from 1 to %d"):format(
         self.num_parts), i)
   end
   return self.data:subgraph(self.nodes[i])
end

local take_loader = args.signature [[graphs.loader.ClusterLoader(cluster_data: object,
   batch_size: count = 1, shuffle: boolean = false, drop_last: boolean = false,
   num_workers: count = 0)]]

--- Makes batches of the parts of a graph. A batch is the graph of `batch_size` parts, with all
--- edges within and between these parts.
---
---     local data = torch.graphs.datasets.KarateClub():get(1)
---     local L = torch.graphs.loader
---     local parts = L.ClusterData(data, 4)
---     for batch in L.ClusterLoader(parts, {batch_size = 4}):iter() do
---        print(batch.num_nodes, batch.num_edges)
---     end
---     --> 34	156
---@class graphs.loader.ClusterLoader: data.DataLoader
---@overload fun(cluster_data: graphs.loader.ClusterData, options?: table):
--- graphs.loader.ClusterLoader
local ClusterLoader = class.class("graphs.loader.ClusterLoader", torch.data.DataLoader)
M.ClusterLoader = ClusterLoader

---@param cluster_data graphs.loader.ClusterData  the divided graph
---@param options? {batch_size: integer, shuffle: boolean, drop_last: boolean, num_workers: integer}
--- batch_size: the number of parts
function ClusterLoader:__init(...)
   local a = take_loader(...)
   local data, nodes = rawget(a.cluster_data, "data"), rawget(a.cluster_data, "nodes")
   if not data or not nodes then
      args.refuse("graphs.loader.ClusterLoader", "cluster_data", "a graphs.loader.ClusterData",
         a.cluster_data)
   end
   local numbers = {}
   for i = 1, #nodes do numbers[i] = i end
   torch.data.DataLoader.__init(self, numbers, {batch_size = a.batch_size, shuffle = a.shuffle,
      drop_last = a.drop_last, num_workers = a.num_workers, collate_fn = function(items)
         local list = {}
         for i, item in ipairs(items) do
            list[i] = nodes[type(item) == "table" and item[1] or item]
         end
         return data:subgraph(torch.cat(list))
      end})
end

return M
