-- datasets.lua - torch.graphs.datasets: the karate club, and datasets that are read from the files
-- that their authors publish. Nothing is downloaded: the files must already be in a folder.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Data = require "tlua.graphs.data.Data"
local edges = require "tlua.graphs.utils.edges"
local read_file = require "tlua.utils.read_file"

local M = {}

local Dataset <const> = torch.data.Dataset

-- The base class of the datasets in this file. A dataset is a list of graphs. If it has a
-- transform, each graph passes through it when it is read.
local Graphs = class.class("graphs.datasets.Graphs", Dataset)

function Graphs:__len() return #self.graphs end

--- Returns graph i.
---@param i integer
---@return graphs.data.Data
function Graphs:get(i)
   local graph = self.graphs[i]
   if not graph then
      args.refuse(torch.type(self) .. ":get", "i", ("a graph from 1 to %d"):format(#self.graphs), i)
   end
   return self.transform and self.transform(graph:copy()) or graph
end

-- The karate club ---------------------------------------------------------------------------------

-- For each member of the club, the friends whose number is higher than the member's (Zachary,
-- 1977).
local friends <const> = {
   {2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 18, 20, 22, 32}, {3, 4, 8, 14, 18, 20, 22, 31},
   {4, 8, 9, 10, 14, 28, 29, 33}, {8, 13, 14}, {7, 11}, {7, 11, 17}, {17}, {}, {31, 33, 34}, {34},
   {}, {}, {}, {34}, {33, 34}, {33, 34}, {}, {}, {33, 34}, {34}, {33, 34}, {}, {33, 34},
   {26, 28, 30, 33, 34}, {26, 28, 32}, {32}, {30, 34}, {34}, {32, 34}, {33, 34}, {33, 34},
   {33, 34}, {34}, {},
}

local communities <const> = {2, 2, 2, 2, 4, 4, 4, 2, 1, 2, 4, 2, 2, 2, 1, 1, 4, 2, 1, 2, 1, 2, 1, 1,
   3, 3, 1, 1, 3, 1, 1, 3, 1, 1}

local take_karate = args.signature "graphs.datasets.KarateClub(transform: callable?)"

--- Zachary's karate club: one graph of 34 members with 78 friendships. Each friendship is an edge
--- in both directions. `x` is the identity matrix, `y` has the communities from 1 to 4, and
--- `train_mask` selects one member of each community.
---
---     local data = torch.graphs.datasets.KarateClub():get(1)
---     print(data)
---     --> Data(x=[34, 34], edge_index=[2, 156], y=[34], train_mask=[34])
---@class graphs.datasets.KarateClub: data.Dataset
---@field graphs graphs.data.Data[]  the graphs
---@overload fun(options?: table): graphs.datasets.KarateClub
local KarateClub = class.class("graphs.datasets.KarateClub", Graphs)
M.KarateClub = KarateClub

---@param options? {transform: function}  transform: is called with each graph
function KarateClub:__init(...)
   Dataset.__init(self)
   self.transform = take_karate(...).transform
   local rows, cols, mask, seen = {}, {}, {}, {}
   for i, list in ipairs(friends) do
      for _, k in ipairs(list) do
         rows[#rows + 1], cols[#cols + 1] = i, k
      end
      mask[i] = not seen[communities[i]]
      seen[communities[i]] = true
   end
   local edge_index = edges.to_undirected(torch.tensor({rows, cols}, {dtype = "int64"}))
   self.graphs = {Data {x = torch.eye(#friends), edge_index = edge_index,
      y = torch.tensor(communities, {dtype = "int64"}), train_mask = torch.tensor(mask)}}
   self.num_classes = 4
end

-- Text files --------------------------------------------------------------------------------------

-- Reads a text file of numbers, which must be integers if `dtype` is int64. Returns a tensor with
-- one row for each line, or a vector if the lines have one number. If `optional` is true and there
-- is no file, returns nil.
local function numbers(title, path, dtype, optional)
   local text = read_file(path)
   if not text then
      if optional then return nil end
      torch.raise(("%s: there is no file %s"):format(title, path))
   end
   local rows, width = {}, nil
   local line_number = 0
   for line in text:gmatch "[^\r\n]+" do
      line_number = line_number + 1
      local row = {}
      for word in line:gmatch "[^,%s]+" do
         local number = tonumber(word)
         local value = number and dtype == "int64" and math.tointeger(number) or number
         if not number or dtype == "int64" and math.type(value) ~= "integer" then
            torch.raise(("%s: %s:%d: expected %s, got %q"):format(title, path, line_number,
               number and "integers" or "numbers", word:sub(1, 40)))
         end
         row[#row + 1] = value
      end
      if #row > 0 then
         width = width or #row
         if #row ~= width then
            torch.raise(("%s: %s:%d: expected %d numbers, got %d"):format(title, path, line_number,
               width, #row))
         end
         rows[#rows + 1] = width == 1 and row[1] or row
      end
   end
   if #rows == 0 then return torch.zeros({0}, {dtype = dtype, device = "cpu"}) end
   return torch.tensor(rows, {dtype = dtype, device = "cpu"})
end

-- Raises an error unless a tensor that `numbers` has read has `rows` rows, or is nil.
local function check_rows(title, path, value, rows, what)
   if value and value:size(1) ~= rows then
      torch.raise(("%s: %s: expected %d lines, one for each %s, got %d"):format(title, path, rows,
         what, value:size(1)))
   end
end

local function columns(value)
   return value and (value:dim() == 1 and value:unsqueeze(2) or value)
end

-- Returns the labels as one-hot codes. If there are several columns of labels, their codes are
-- concatenated.
local function one_hots(labels)
   if not labels then return nil end
   labels = columns(labels)
   local list = {}
   for i = 1, labels:size(2) do
      local column = labels:select(2, i)
      column = column - column:min() + 1
      list[i] = torch.nn.functional.one_hot(column):float()
   end
   return torch.cat(list, 2)
end

local function joined(a, b)
   if a and b then return torch.cat({a, b}, -1) end
   return a or b
end

-- Planetoid ---------------------------------------------------------------------------------------

local take_planetoid = args.signature [[graphs.datasets.Planetoid(root: string, name: string,
   transform: callable?)]]

--- Cora, CiteSeer or PubMed with the public split: x, edge_index, y, train_mask, val_mask and
--- test_mask. It is read from Planetoid's files ind.NAME.x, .tx, .allx, .y, .ty, .ally, .graph and
--- .test.index in the folder root/NAME/raw.
---
---     local Planetoid = torch.graphs.datasets.Planetoid
---     local ok, message = pcall(Planetoid, ".", "Cora") -- without the files
---     print(ok, message:match "there is no file .*")
---     --> false	there is no file ./Cora/raw/ind.cora.tx
---@class graphs.datasets.Planetoid: data.Dataset
---@field graphs graphs.data.Data[]  the graph
---@overload fun(root: string, name: string, options?: table): graphs.datasets.Planetoid
local Planetoid = class.class("graphs.datasets.Planetoid", Graphs)
M.Planetoid = Planetoid

-- Returns the edges for a dictionary that maps each node to the list of its neighbours. The
-- dictionary counts nodes from 0.
local function edges_of(title, path, graph, n)
   local rows, cols = {}, {}
   for node, list in pairs(graph) do
      for _, other in ipairs(type(list) == "table" and list or {}) do
         if math.type(node) ~= "integer" or math.type(other) ~= "integer" or node < 0 or other < 0
               or node >= n or other >= n then
            torch.raise(("%s: %s: expected nodes from 0 to %d"):format(title, path, n - 1))
         end
         rows[#rows + 1], cols[#cols + 1] = node + 1, other + 1
      end
   end
   local edge_index = torch.tensor({rows, cols}, {dtype = "int64", device = "cpu"}):view(2, -1)
   edge_index = edges.remove_self_loops(edge_index)
   return (edges.coalesce(edge_index, {num_nodes = n, sort_by_row = false}))
end

---@param root string
---@param name string  "Cora", "CiteSeer" or "PubMed"
---@param options? {transform: function}  transform: is called with the graph
function Planetoid:__init(...)
   Dataset.__init(self)
   local title <const> = "graphs.datasets.Planetoid"
   local a = take_planetoid(...)
   self.transform, self.name = a.transform, a.name
   local prefix = ("%s/%s/raw/ind.%s."):format(a.root, a.name, a.name:lower())
   local pickle = require "tlua.graphs.pickle"
   local function file(name) return pickle.read(title, prefix .. name):float() end
   local tx, allx, y, ty, ally = file "tx", file "allx", file "y", file "ty", file "ally"
   local graph = pickle.read(title, prefix .. "graph", true)
   local test = numbers(title, prefix .. "test.index", "int64") + 1
   local sorted = test:sort(1)
   local first, last = sorted[1]:item(), sorted[-1]:item()
   local span = last - first + 1
   if span ~= tx:size(1) then
      -- In CiteSeer, test nodes without edges have no row of features. The rows are copied to their
      -- positions, and the missing rows stay 0.
      local places = sorted - first + 1
      tx = torch.zeros(span, tx:size(2), {device = "cpu"}):index_copy(1, places, tx)
      ty = torch.zeros(span, ty:size(2), {device = "cpu"}):index_copy(1, places, ty)
   end
   local x, labels = torch.cat {allx, tx}, torch.cat({ally, ty}):argmax(2)
   local n = x:size(1)
   if last > n or first ~= allx:size(1) + 1 then
      torch.raise(("%s: %stest.index: expected nodes from %d to %d"):format(title, prefix,
         allx:size(1), n - 1))
   end
   x = x:index_copy(1, test, x:index_select(1, sorted))
   labels = labels:index_copy(1, test, labels:index_select(1, sorted))
   local function mask(from, count)
      local out = torch.zeros(n, {dtype = "bool", device = "cpu"})
      if count > 0 then out:narrow(1, from, math.min(count, n - from + 1)):fill_(true) end
      return out
   end
   local train = y:size(1)
   self.graphs = {Data {x = x, edge_index = edges_of(title, prefix .. "graph", graph, n),
      y = labels, train_mask = mask(1, train), val_mask = mask(train + 1, 500),
      test_mask = mask(1, 0):index_fill(1, test, true)}}
end

-- TUDataset ---------------------------------------------------------------------------------------

local take_tu = args.signature [[graphs.datasets.TUDataset(root: string, name: string,
   transform: callable?, use_node_attr: boolean = false, use_edge_attr: boolean = false)]]

--- The graphs of a collection in TU Dortmund's format. They are read from the files NAME_A.txt,
--- NAME_graph_indicator.txt, NAME_graph_labels.txt and so on in the folder root/NAME/raw, or in
--- root/NAME. Labels of nodes and edges become one-hot codes. use_node_attr and use_edge_attr put
--- attributes in front of these codes.
---
---     torch.io.make_folder "TWO/raw"
---     local function write(name, text)
---        io.open("TWO/raw/TWO_" .. name, "w"):write(text):close()
---     end
---     write("A.txt", "1, 2\n2, 1\n3, 4\n4, 3\n")
---     write("graph_indicator.txt", "1\n1\n2\n2\n")
---     write("graph_labels.txt", "-1\n1\n")
---     local set = torch.graphs.datasets.TUDataset(".", "TWO")
---     print(#set, set:get(2).edge_index[1], set:get(2).y)
---     --> 2	tensor([1, 2])	tensor([2])
---@class graphs.datasets.TUDataset: data.Dataset
---@field graphs graphs.data.Data[]  the graphs
---@field num_classes integer  the number of classes
---@overload fun(root: string, name: string, options?: table): graphs.datasets.TUDataset
local TUDataset = class.class("graphs.datasets.TUDataset", Graphs)
M.TUDataset = TUDataset

-- Splits rows into one tensor for each graph. The rows of a graph must be adjacent.
local function split(value, counts)
   return value and value:split(counts, 1)
end

---@param root string
---@param name string  the collection's name
---@param options? {transform: function, use_node_attr: boolean, use_edge_attr: boolean}  transform:
--- is called with each graph; use_node_attr: whether x has the attributes of nodes; use_edge_attr:
--- whether edge_attr has the attributes of edges
function TUDataset:__init(...)
   Dataset.__init(self)
   local title <const> = "graphs.datasets.TUDataset"
   local a = take_tu(...)
   self.transform, self.name = a.transform, a.name
   local folder = ("%s/%s/raw/%s_"):format(a.root, a.name, a.name)
   if not read_file(folder .. "A.txt") then
      folder = ("%s/%s/%s_"):format(a.root, a.name, a.name)
   end
   local function file(name, dtype, optional)
      return numbers(title, folder .. name .. ".txt", dtype, optional)
   end
   local pairs_of, batch = file("A", "int64"), file("graph_indicator", "int64")
   if pairs_of:dim() ~= 2 or pairs_of:size(2) ~= 2 then
      torch.raise(("%s: %sA.txt: expected two numbers in each line"):format(title, folder))
   end
   local n = batch:size(1)
   if batch:dim() ~= 1 or n == 0 or batch:min():item() < 1 then
      torch.raise(("%s: %sgraph_indicator.txt: expected one number of a graph, from 1, in each "
         .. "line"):format(title, folder))
   end
   if n > 1 and batch[{{2, -1}}]:lt(batch[{{1, -2}}]):any():item() then
      torch.raise(("%s: %sgraph_indicator.txt: expected ascending numbers of graphs"):format(title,
         folder))
   end
   local least, most = pairs_of:min():item(), pairs_of:max():item()
   if least < 1 or most > n then
      torch.raise(("%s: %sA.txt: expected nodes from 1 to %d, got %d"):format(title, folder, n,
         least < 1 and least or most))
   end
   local across = batch:index_select(1, pairs_of:select(2, 1)):ne(
      batch:index_select(1, pairs_of:select(2, 2)))
   if across:any():item() then
      torch.raise(("%s: %sA.txt:%d: expected an edge between nodes of the same graph"):format(title,
         folder, across:long():argmax():item()))
   end
   -- Reads an optional file with a line for each node or edge.
   local function rows_of(name, dtype, rows, what)
      local value = file(name, dtype, true)
      check_rows(title, folder .. name .. ".txt", value, rows, what)
      return value
   end
   local edge_count = pairs_of:size(1)
   local x = joined(a.use_node_attr and columns(rows_of("node_attributes", "float32", n, "node"))
      or nil, one_hots(rows_of("node_labels", "int64", n, "node")))
   local attr = joined(a.use_edge_attr
      and columns(rows_of("edge_attributes", "float32", edge_count, "edge")) or nil,
      one_hots(rows_of("edge_labels", "int64", edge_count, "edge")))
   local count = batch:max():item()
   local y = rows_of("graph_attributes", "float32", count, "graph")
   if not y then
      y = rows_of("graph_labels", "int64", count, "graph")
      if y then
         local classes, inverse = torch.unique(y, true, true)
         y, self.num_classes = inverse, classes:numel()
      end
   end
   local edge_index = pairs_of:t():contiguous()
   edge_index, attr = edges.remove_self_loops(edge_index, attr)
   edge_index, attr = edges.coalesce(edge_index, {edge_attr = attr, num_nodes = n})
   local nodes = torch.bincount(batch, {minlength = count})
   local of_edges = batch:index_select(1, edge_index[1])
   local edge_counts = torch.bincount(of_edges, {minlength = count}):tolist()
   local before = nodes:cumsum(1) - nodes
   local inner = (edge_index - before:index_select(1, of_edges)):split(edge_counts, 2)
   local counts = nodes:tolist()
   local xs, attrs = split(x, counts), split(attr, edge_counts)
   self.graphs = {}
   for i = 1, count do
      self.graphs[i] = Data {x = xs and xs[i], edge_index = inner[i],
         edge_attr = attrs and attrs[i], y = y and y[{{i, i}}],
         num_nodes = not xs and counts[i] or nil}
   end
end

-- OGB ---------------------------------------------------------------------------------------------

local take_ogb = args.signature [[graphs.datasets.OGBNodePropPredDataset(root: string,
   name: string, split: string?, transform: callable?)]]

--- The graph of a node property dataset of OGB, read from its unpacked archive. The files edge.csv,
--- edge-feat.csv, node-feat.csv, node-label.csv and num-node-list.csv in the folder raw become
--- edge_index, edge_attr, x, y and num_nodes; only edge.csv and num-node-list.csv must exist. With
--- the option `split`, train.csv, valid.csv and test.csv in the folder split/SPLIT become
--- train_mask, val_mask and test_mask. Files that end in .gz must be unpacked before.
---
---     torch.io.make_folder "ogbn_two/raw"
---     local function write(name, text)
---        io.open("ogbn_two/raw/" .. name, "w"):write(text):close()
---     end
---     write("edge.csv", "0,1\n1,0\n")
---     write("num-node-list.csv", "2\n")
---     write("node-label.csv", "0\n1\n")
---     local Set = torch.graphs.datasets.OGBNodePropPredDataset
---     print(Set(".", "ogbn-two"):get(1).edge_index[1])
---     --> tensor([1, 2])
---@class graphs.datasets.OGBNodePropPredDataset: data.Dataset
---@field graphs graphs.data.Data[]  the graph
---@overload fun(root: string, name: string, options?: table):
--- graphs.datasets.OGBNodePropPredDataset
local OGB = class.class("graphs.datasets.OGBNodePropPredDataset", Graphs)
M.OGBNodePropPredDataset = OGB

---@param root string
---@param name string  the dataset's name
---@param options? {split: string, transform: function}  split: the folder of the split, such as
--- "time"; transform: is called with the graph
function OGB:__init(...)
   Dataset.__init(self)
   local title <const> = "graphs.datasets.OGBNodePropPredDataset"
   local a = take_ogb(...)
   self.transform, self.name = a.transform, a.name
   local folder = ("%s/%s/"):format(a.root, (a.name:gsub("-", "_")))
   local function file(name, dtype, optional)
      return numbers(title, folder .. name .. ".csv", dtype, optional)
   end
   local edge_list = file("raw/edge", "int64")
   if edge_list:dim() ~= 2 or edge_list:size(2) ~= 2 then
      torch.raise(("%s: %sraw/edge.csv: expected two numbers in each line"):format(title, folder))
   end
   local n = file("raw/num-node-list", "int64"):sum():item()
   local least, most = edge_list:min():item(), edge_list:max():item()
   if least < 0 or most >= n then
      torch.raise(("%s: %sraw/edge.csv: expected nodes from 0 to %d, got %d"):format(title, folder,
         n - 1, least < 0 and least or most))
   end
   local function rows_of(name, dtype, rows, what)
      local value = file(name, dtype, true)
      check_rows(title, folder .. name .. ".csv", value, rows, what)
      return columns(value)
   end
   local y = rows_of("raw/node-label", "int64", n, "node")
   local data = Data {x = rows_of("raw/node-feat", "float32", n, "node"),
      edge_index = edge_list:t():contiguous() + 1,
      edge_attr = rows_of("raw/edge-feat", "float32", edge_list:size(1), "edge"),
      y = y and y + 1, num_nodes = n}
   if a.split then
      for key, name in pairs {train_mask = "train", val_mask = "valid", test_mask = "test"} do
         local list = file(("split/%s/%s"):format(a.split, name), "int64")
         local mask = torch.zeros(n, {dtype = "bool", device = "cpu"})
         if list:numel() > 0 and (list:dim() ~= 1 or list:min():item() < 0
               or list:max():item() >= n) then
            torch.raise(("%s: %ssplit/%s/%s.csv: expected nodes from 0 to %d"):format(title, folder,
               a.split, name, n - 1))
         end
         if list:numel() > 0 then mask:index_fill_(1, list + 1, true) end
         data[key] = mask
      end
   end
   self.graphs = {data}
end

return M
