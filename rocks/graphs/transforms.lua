-- transforms.lua - torch.graphs.transforms: random splits of nodes and of edges, and conversion of
-- edges to sparse matrices.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.graphs.checks"
local random = require "tlua.graphs.utils.random"

local M = {}

-- Returns a number of items. `value` is this number, or a share of n as a float of at most 1. A
-- share is multiplied by n, and the product plus `half` is rounded down.
local function count_of(title, name, value, n, half)
   if not (value >= 0 and value < 2 ^ 53) then
      args.refuse(title, name, "a number of at least 0", value)
   end
   return math.type(value) == "float" and value <= 1 and math.floor(value * n + half)
      or math.floor(value)
end

local take_node = args.signature [[graphs.transforms.RandomNodeSplit(split: string = 'train_rest',
   num_train_per_class: count = 20, num_val: number = 500, num_test: number = 1000,
   key: string = 'y')]]

--- Adds random train_mask, val_mask and test_mask to a graph. The option `split` determines the
--- parts. With "train_rest", all nodes that are not for validation or tests are for training. With
--- "test_rest", num_train_per_class nodes of each class are for training, and the remaining nodes
--- are for tests. With "random", the remaining nodes are in no part.
---
---     local RandomNodeSplit = torch.graphs.transforms.RandomNodeSplit
---     local split = RandomNodeSplit {num_val = 4, num_test = 10}
---     local data = split(torch.graphs.datasets.KarateClub():get(1))
---     print(data.train_mask:sum():item(), data.test_mask:sum():item())
---     --> 20	10
---@class graphs.transforms.RandomNodeSplit
---@overload fun(options?: table): graphs.transforms.RandomNodeSplit
local RandomNodeSplit = class.class "graphs.transforms.RandomNodeSplit"
M.RandomNodeSplit = RandomNodeSplit

---@param options? {split: string, num_train_per_class: integer, num_val: number, num_test: number,
--- key: string}  split: the part that gets the remaining nodes; num_train_per_class: the number of
--- nodes of each class for training; num_val: the number of nodes for validation, or their share as
--- a float of at most 1; num_test: the number or share of nodes for tests; key: the name of the
--- attribute with the classes
function RandomNodeSplit:__init(...)
   self.options = take_node(...)
   local split = self.options.split
   if split ~= "train_rest" and split ~= "test_rest" and split ~= "random" then
      args.refuse("graphs.transforms.RandomNodeSplit", "split",
         '"train_rest", "test_rest" or "random"', split)
   end
end

-- Raises an error unless a value is a graph that has edge_index, or with `of_nodes` any graph.
local function check_graph(title, data, of_nodes)
   if type(data) ~= "table" or not data._is_graph or not (of_nodes or data.edge_index) then
      args.refuse(title, "data", of_nodes and "a graph" or "a graph with edge_index", data)
   end
end

function RandomNodeSplit:__call(data)
   local title <const> = "graphs.transforms.RandomNodeSplit"
   check_graph(title, data, true)
   local o, n = self.options, data.num_nodes
   local val = count_of(title, "num_val", o.num_val, n, 0.5)
   local test = count_of(title, "num_test", o.num_test, n, 0.5)
   local order = torch.randperm(n)
   local train = {}
   if o.split ~= "train_rest" then
      local y = data:get(o.key)
      if not torch.is_tensor(y) then args.refuse(title, o.key, "a tensor of classes", y) end
      local shuffled = y:view(-1):index_select(1, order)
      for c = 1, shuffled:max():item() do
         local of_class = order[shuffled:eq(c)]
         local k = math.min(o.num_train_per_class, of_class:numel())
         train[c] = of_class:narrow(1, 1, k)
      end
   end
   local function mask_of(index)
      local mask = torch.zeros(n, {dtype = "bool"})
      return index:numel() > 0 and mask:index_fill_(1, index, true) or mask
   end
   local copy = data:copy()
   local train_mask = mask_of(#train > 0 and torch.cat(train) or order:narrow(1, 1, 0))
   local rest = order[~train_mask:index_select(1, order)]
   if o.split == "test_rest" then test = rest:numel() - val end
   if val > rest:numel() or test < 0 or val + test > rest:numel() then
      torch.raise(("%s: num_val, num_test: expected at most the %d nodes that are left, got %d and "
         .. "%d"):format(title, rest:numel(), val, test))
   end
   copy.val_mask = mask_of(rest:narrow(1, 1, val))
   copy.test_mask = mask_of(rest:narrow(1, val + 1, test))
   copy.train_mask = o.split == "train_rest"
      and mask_of(rest:narrow(1, val + test + 1, rest:numel() - val - test)) or train_mask
   return copy
end

local take_link = args.signature [[graphs.transforms.RandomLinkSplit(num_val: number = 0.1,
   num_test: number = 0.2, is_undirected: boolean = false, neg_sampling_ratio: number = 1,
   add_negative_train_samples: boolean = true)]]

--- Splits the edges of a graph into edges for training, validation and tests, and adds negative
--- samples, which are edges that the graph does not have. `edge_label_index` has both kinds of
--- edges, and `edge_label` is 1 for real and 0 for negative edges. A call returns three graphs. The
--- edge_index of the validation graph has the training edges; that of the test graph also has the
--- validation edges.
---
---     local split = torch.graphs.transforms.RandomLinkSplit {is_undirected = true}
---     local train, val, test = split(torch.graphs.datasets.KarateClub():get(1))
---     print(train.num_edges, #val.edge_label, #test.edge_label)
---     --> 112	14	30
---@class graphs.transforms.RandomLinkSplit
---@overload fun(options?: table): graphs.transforms.RandomLinkSplit
local RandomLinkSplit = class.class "graphs.transforms.RandomLinkSplit"
M.RandomLinkSplit = RandomLinkSplit

---@param options? {num_val: number, num_test: number, is_undirected: boolean, neg_sampling_ratio:
--- number, add_negative_train_samples: boolean}  num_val: the number of edges for validation, or
--- their share as a float of at most 1; num_test: the number or share of edges for tests;
--- is_undirected: whether an edge and its reverse count as one; neg_sampling_ratio: the number of
--- negative edges for each real one; add_negative_train_samples: whether the graph for training
--- gets negative edges
function RandomLinkSplit:__init(...)
   self.options = take_link(...)
   local ratio = self.options.neg_sampling_ratio
   if not (ratio >= 0 and ratio < math.huge) then
      args.refuse("graphs.transforms.RandomLinkSplit", "neg_sampling_ratio",
         "a number of at least 0", ratio)
   end
end

function RandomLinkSplit:__call(data)
   local title <const> = "graphs.transforms.RandomLinkSplit"
   check_graph(title, data)
   local o, n, edge_index = self.options, data.num_nodes, checks.edges(title, data.edge_index)
   checks.range(title, "edge_index", edge_index, n)
   local places = torch.arange(1, edge_index:size(2) + 1)
   if o.is_undirected then places = places[edge_index[1]:le(edge_index[2])] end
   places = places:index_select(1, torch.randperm(places:numel()))
   local count = places:numel()
   local val = count_of(title, "num_val", o.num_val, count, 0)
   local test = count_of(title, "num_test", o.num_test, count, 0)
   local train = count - val - test
   if train <= 0 then
      torch.raise(("%s: num_val, num_test: expected fewer than the %d edges, got %d and %d"):format(
         title, count, val, test))
   end
   local missing = math.floor(count * o.neg_sampling_ratio)
   local negative = random.negative_sampling(edge_index, {num_nodes = n, num_neg_samples = missing})
   local used = 0
   local function part(message, label, has_negative)
      local copy = data:copy()
      local kept = edge_index:index_select(2, message)
      local chosen = message
      for name, value in data:items() do
         if name ~= "edge_index" and data:is_edge_attr(name) then
            value = value:index_select(1, chosen)
            copy[name] = o.is_undirected and torch.cat {value, value} or value
         end
      end
      copy.edge_index = o.is_undirected and torch.cat({kept, kept:flip(1)}, 2) or kept
      local positive = edge_index:index_select(2, label)
      local k = has_negative and math.min(math.floor(label:numel() * o.neg_sampling_ratio),
         negative:size(2) - used) or 0
      copy.edge_label_index = torch.cat({positive, negative:narrow(2, used + 1, k)}, 2)
      copy.edge_label = torch.cat {torch.ones(label:numel()), torch.zeros(k)}
      used = used + k
      return copy
   end
   local for_train = places:narrow(1, 1, train)
   local for_val = places:narrow(1, train + 1, val)
   local for_test = places:narrow(1, train + val + 1, test)
   local third = part(places:narrow(1, 1, train + val), for_test, true)
   local second = part(for_train, for_val, true)
   return part(for_train, for_train, o.add_negative_train_samples), second, third
end

local take_sparse = args.signature [[graphs.transforms.ToSparseTensor(
   attr: string = 'edge_weight', remove_edge_index: boolean = true)]]

--- Adds `adj_t` to a graph: a sparse_csr tensor of shape (nodes, nodes) whose row i has the sources
--- of the edges that end at node i. Its values are the edge attribute `attr`, or 1 if the graph has
--- no such attribute. Layers accept adj_t in place of edge_index. The other edge attributes are
--- reordered, so that their rows follow the elements of adj_t.
---
---     local data = torch.graphs.datasets.KarateClub():get(1)
---     data = torch.graphs.transforms.ToSparseTensor()(data)
---     local conv = torch.graphs.nn.GCNConv(34, 2)
---     print(data.adj_t.shape, conv(data.x, data.adj_t).shape)
---     --> torch.Size([34, 34])	torch.Size([34, 2])
---@class graphs.transforms.ToSparseTensor
---@overload fun(options?: table): graphs.transforms.ToSparseTensor
local ToSparseTensor = class.class "graphs.transforms.ToSparseTensor"
M.ToSparseTensor = ToSparseTensor

---@param options? {attr: string, remove_edge_index: boolean}  attr: the name of the attribute with
--- the values, which is removed with edge_index; remove_edge_index: whether edge_index is removed
function ToSparseTensor:__init(...) self.options = take_sparse(...) end

function ToSparseTensor:__call(data)
   local title <const> = "graphs.transforms.ToSparseTensor"
   check_graph(title, data)
   local n, edge_index = data.num_nodes, checks.edges(title, data.edge_index)
   checks.range(title, "edge_index", edge_index, n)
   local o, copy = self.options, data:copy()
   local by_source = torch.argsort(edge_index[1], {stable = true})
   local order = by_source:index_select(1,
      torch.argsort(edge_index[2]:index_select(1, by_source), {stable = true}))
   local value = data:get(o.attr)
   if value ~= nil then
      checks.edge_attr(title, edge_index, value, o.attr)
      if value:dim() ~= 1 then args.refuse(title, o.attr, "a tensor of one dimension", value) end
   end
   for name, attribute in data:items() do
      if name ~= "edge_index" and data:is_edge_attr(name) then
         copy[name] = attribute:index_select(1, order)
      end
   end
   value = value and value:index_select(1, order)
      or torch.ones(order:numel(), {device = edge_index.device})
   local counts = edge_index:numel() > 0 and torch.bincount(edge_index[2], {minlength = n})
      or torch.zeros(n, {dtype = "int64", device = edge_index.device})
   local pointers = torch.cat {counts:new_ones(1), counts:cumsum(1) + 1}
   copy.num_nodes = n
   if o.remove_edge_index then
      copy.edge_index = nil
      copy[o.attr] = nil
   else
      copy.edge_index = edge_index:index_select(2, order)
   end
   copy.adj_t = torch.sparse_csr_tensor(pointers, edge_index[1]:index_select(1, order), value,
      {n, n})
   return copy
end

return M
