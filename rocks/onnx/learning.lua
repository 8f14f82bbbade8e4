-- learning.lua - operators of the domain ai.onnx.ml, which exported scikit-learn models use: trees,
-- linear models, and preprocessing of features.

local torch = require "tlua"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"

local M = {}

function M.ArrayFeatureExtractor(node, x, index)
   local places = support.from_one(node, index:reshape(-1), x:size(-1))
   return x:index_select(x:dim(), places)
end

function M.Binarizer(node, x) return x:gt(node:float("threshold", 0)):to(x.dtype) end

function M.Scaler(node, x)
   local offset, scale = node:floats("offset", {0}), node:floats("scale", {1})
   return (x:to "float32" - torch.tensor(offset)) * torch.tensor(scale)
end

function M.Normalizer(node, x)
   local norm = node:text("norm", "MAX")
   local y = x:to "float32"
   local size
   if norm == "MAX" then
      size = y:abs():amax({-1}, true)
   elseif norm == "L1" then
      size = y:abs():sum({-1}, true)
   else
      size = (y * y):sum({-1}, true):sqrt()
   end
   return torch.where(size:eq(0), y, y / size)
end

function M.Imputer(node, x)
   local integers = node:ints "imputed_value_int64s"
   local list = integers or node:need("floats", "imputed_value_floats")
   local missing = integers and node:int("replaced_value_int64", 0)
      or node:float("replaced_value_float", 0)
   local mask = missing ~= missing and torch.isnan(x) or x:eq(missing)
   return torch.where(mask, torch.tensor(list, {dtype = x.dtype}), x)
end

-- Labels ------------------------------------------------------------------------------------------

-- Reads the attribute with the keys or the values of a map; `which` is "keys" or "values". Returns
-- the list and its dtype.
local function read_labels(node, which)
   for _, kind in ipairs {"strings", "int64s", "floats"} do
      local name = ("%s_%s"):format(which, kind)
      if node:has(name) then
         local read = ({strings = "texts", int64s = "ints", floats = "floats"})[kind]
         return node[read](node, name), ({strings = "string", int64s = "int64",
            floats = "float32"})[kind]
      end
   end
   local tensor = node:tensor(which .. "_tensor")
   if not tensor then node:fail("attribute %s_... is missing", which) end
   if values.is_strings(tensor) then return tensor, "string" end
   return tensor:reshape(-1):tolist(), tensor.dtype
end

local defaults <const> = {string = "_Unused", int64 = -1, float32 = -0.0}

local function default_label(node, dtype)
   local tensor = node:tensor "default_tensor"
   if tensor then return values.is_strings(tensor) and tensor[1] or tensor:item() end
   if dtype == "string" then return node:text("default_string", defaults.string) end
   if dtype == "int64" then return node:int("default_int64", defaults.int64) end
   return node:float("default_float", defaults.float32) or defaults.float32
end

-- Converts a list to a tensor of the given dtype and shape. For the dtype "string" this is a tensor
-- of strings.
local function pack(list, dtype, shape)
   if dtype == "string" then return values.strings(list, shape) end
   if #list == 0 then return torch.empty(shape, {dtype = dtype}) end
   return torch.tensor(list, {dtype = dtype}):reshape(shape)
end

function M.LabelEncoder(node, x)
   local keys, _ = read_labels(node, "keys")
   local results, dtype = read_labels(node, "values")
   if #keys ~= #results then node:fail("%d keys and %d values", #keys, #results) end
   local map, nan = {}, nil
   for i, key in ipairs(keys) do
      if key ~= key then nan = results[i] elseif map[key] == nil then map[key] = results[i] end
   end
   local other = default_label(node, dtype)
   local list = {}
   for i, key in ipairs(values.is_strings(x) and x or x:reshape(-1):tolist()) do
      local found = map[key]
      if key ~= key then found = nan end
      if found == nil then found = other end
      list[i] = found
   end
   return pack(list, dtype, table.move(x.shape, 1, #x.shape, 1, {}))
end

function M.OneHotEncoder(node, x)
   local categories = node:ints "cats_int64s" or node:need("texts", "cats_strings")
   local place = {}
   for i, category in ipairs(categories) do place[category] = i end
   local list = {}
   for i, key in ipairs(values.is_strings(x) and x or x:reshape(-1):tolist()) do
      local at = place[key]
      if not at and node:int("zeros", 1) == 0 then
         node:fail("the category %s is unknown", tostring(key))
      end
      for k = 1, #categories do list[(i - 1) * #categories + k] = k == at and 1.0 or 0.0 end
   end
   local shape = table.move(x.shape, 1, #x.shape, 1, {})
   shape[#shape + 1] = #categories
   return torch.tensor(list):reshape(shape)
end

function M.ZipMap(node)
   node:fail "maps are not supported; convert the model with the option zipmap = False"
end

-- Scores ------------------------------------------------------------------------------------------

local function transform(node, scores)
   local name = node:text("post_transform", "NONE")
   if name == "NONE" then return scores end
   if name == "LOGISTIC" then return torch.sigmoid(scores) end
   if name == "SOFTMAX" then return scores:softmax(-1) end
   if name == "SOFTMAX_ZERO" then
      local zero = scores:eq(0)
      return scores:masked_fill(zero, -math.huge):softmax(-1):masked_fill(zero, 0)
   end
   node:fail("attribute post_transform: %q is not supported", name)
end

-- Returns the class labels with the given numbers, which count from 1.
local function labels_at(node, places)
   local names = node:texts("classlabels_strings") or node:texts "classlabels_string"
   local numbers = node:ints("classlabels_int64s") or node:ints "classlabels_ints"
   local list = {}
   for i, at in ipairs(places:tolist()) do
      list[i] = names and #names > 0 and names[at] or numbers and numbers[at] or at - 1
   end
   return pack(list, names and #names > 0 and "string" or "int64", {#list})
end

-- Returns the class and the scores of each row for a classifier. A single score stands for two
-- classes: it is compared with `threshold`.
local function classify(node, scores, classes, threshold)
   if scores:size(2) == 1 and classes == 2 then
      local logistic = node:text("post_transform", "NONE") == "LOGISTIC"
      local positive = transform(node, scores)
      local chosen = scores:reshape(-1):gt(threshold or 0):to "int64" + 1
      local other = logistic and 1 - positive or threshold and 1 - positive or -positive
      return labels_at(node, chosen), torch.cat({other, positive}, 2)
   end
   return labels_at(node, scores:argmax(2)), transform(node, scores)
end

function M.LinearClassifier(node, x)
   local weights, offsets = node:need("floats", "coefficients"), node:floats("intercepts", {})
   local y = x:to "float32"
   local rows = #weights // y:size(2)
   local scores = torch.matmul(y, torch.tensor(weights):reshape(rows, -1):t())
   if #offsets > 0 then scores = scores + torch.tensor(offsets) end
   local names = node:texts "classlabels_strings" or node:ints("classlabels_ints", {})
   return classify(node, scores, #names)
end

function M.LinearRegressor(node, x)
   local weights, offsets = node:need("floats", "coefficients"), node:floats("intercepts", {})
   local targets = node:int("targets", 1)
   local y = torch.matmul(x:to "float32", torch.tensor(weights):reshape(targets, -1):t())
   if #offsets > 0 then y = y + torch.tensor(offsets) end
   return transform(node, y)
end

-- Trees ------------------------------------------------------------------------------------------

local tests <const> = {
   BRANCH_LEQ = function(a, b) return a <= b end, BRANCH_LT = function(a, b) return a < b end,
   BRANCH_GTE = function(a, b) return a >= b end, BRANCH_GT = function(a, b) return a > b end,
   BRANCH_EQ = function(a, b) return a == b end, BRANCH_NEQ = function(a, b) return a ~= b end,
   BRANCH_MEMBER = function(a, set) return set[a] == true end,
}

-- Follows a tree's branches for a row of features, and returns the leaf.
local function walk(node, tree, row)
   local steps = 0
   while not tree.leaf do
      steps = steps + 1
      if steps > 10000 then node:fail "a tree contains itself" end
      local value = row[tree.feature + 1]
      if value == nil then node:fail("a tree asks for feature %d of %d", tree.feature, #row) end
      local yes = value ~= value and tree.missing or tree.test(value, tree.split)
      tree = yes and tree.yes or tree.no
      if not tree then node:fail "a tree's branch is missing" end
   end
   return tree.leaf
end

-- Reads trees in the format of versions 1 to 3. It lists all nodes, each with the number of its
-- tree and its number in this tree.
local function read_trees(node, prefix)
   local ids, numbers = node:need("ints", "nodes_treeids"), node:need("ints", "nodes_nodeids")
   local modes = node:need("texts", "nodes_modes")
   local features, splits = node:ints("nodes_featureids", {}), node:floats("nodes_values", {})
   local yes, no = node:ints("nodes_truenodeids", {}), node:ints("nodes_falsenodeids", {})
   local missing = node:ints("nodes_missing_value_tracks_true", {})
   local nodes, roots = {}, {}
   for i, id in ipairs(ids) do
      nodes[id] = nodes[id] or {}
      local own = {feature = features[i], split = splits[i], missing = missing[i] == 1,
         test = tests[modes[i]], at = i}
      if modes[i] == "LEAF" then
         own.leaf = {}
      elseif not own.test then
         node:fail("attribute nodes_modes: %q is unknown", modes[i])
      end
      if next(nodes[id]) == nil then roots[#roots + 1] = own end
      nodes[id][numbers[i]] = own
   end
   for _, tree in pairs(nodes) do
      for _, own in pairs(tree) do own.yes, own.no = tree[yes[own.at]], tree[no[own.at]] end
   end
   local kind = prefix == "class" and "class" or "target"
   local weights = node:need("floats", kind .. "_weights")
   local targets = node:need("ints", kind .. "_ids")
   local trees = node:need("ints", kind .. "_treeids")
   local leaves = node:need("ints", kind .. "_nodeids")
   for i, weight in ipairs(weights) do
      local own = nodes[trees[i]] and nodes[trees[i]][leaves[i]]
      if not own or not own.leaf then node:fail("a weight belongs to no leaf: %d", i - 1) end
      table.insert(own.leaf, {targets[i], weight})
   end
   return roots
end

-- The largest number of targets that a model may have. Without a limit, a damaged file could ask
-- for results of any size.
local MOST_TARGETS <const> = 1 << 20

-- Returns a tensor {N, targets} of the leaves' weights, combined over all trees.
local function evaluate(node, x, roots, targets, base, how)
   if targets < 1 or targets > MOST_TARGETS then
      node:fail("expected 1 to %d targets, got %d", MOST_TARGETS, targets)
   end
   local list = {}
   for r, row in ipairs(x:tolist()) do
      local sums, seen = support.fill(targets, how == "MIN" and math.huge or how == "MAX"
         and -math.huge or 0.0), {}
      for _, root in ipairs(roots) do
         for _, pair in ipairs(walk(node, root, row)) do
            local t = pair[1] + 1
            if t < 1 or t > targets then
               node:fail("a leaf for target %d of %d", pair[1], targets)
            end
            seen[t] = true
            if how == "MIN" then
               sums[t] = math.min(sums[t], pair[2])
            elseif how == "MAX" then
               sums[t] = math.max(sums[t], pair[2])
            else
               sums[t] = sums[t] + pair[2]
            end
         end
      end
      for t = 1, targets do
         if how == "AVERAGE" then sums[t] = sums[t] / #roots end
         if (how == "MIN" or how == "MAX") and not seen[t] then sums[t] = 0.0 end
         list[(r - 1) * targets + t] = sums[t] + (base and (base[t] or base[1]) or 0)
      end
   end
   local dtype = x.dtype == "float64" and x.dtype or "float32"
   return torch.tensor(list, {dtype = dtype}):reshape(-1, targets)
end

function M.TreeEnsembleRegressor(node, x)
   local roots = read_trees(node, "target")
   local scores = evaluate(node, x, roots, node:int("n_targets", 1), node:floats "base_values",
      node:text("aggregate_function", "SUM"))
   return transform(node, scores:to "float32")
end

function M.TreeEnsembleClassifier(node, x)
   local roots = read_trees(node, "class")
   local names = node:texts "classlabels_strings" or {}
   local numbers = node:ints("classlabels_int64s", {})
   local classes, single = math.max(#names, #numbers), true
   for _, id in ipairs(node:need("ints", "class_ids")) do single = single and id == 0 end
   local width = single and classes == 2 and 1 or classes
   local scores = evaluate(node, x, roots, width, node:floats "base_values", "SUM"):to "float32"
   local logistic = node:text("post_transform", "NONE") == "LOGISTIC"
   return classify(node, scores, classes, not logistic and 0.5 or nil)
end

-- In version 5, nodes and leaves have separate numbers. For each branch, a flag tells whether its
-- number belongs to a leaf.
local modes <const> = {[0] = "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ",
   "BRANCH_NEQ", "BRANCH_MEMBER"}
local aggregates <const> = {[0] = "AVERAGE", "SUM", "MIN", "MAX"}
local transforms <const> = {[0] = "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}

local function read_members(node, count)
   local tensor = node:tensor "membership_values"
   local sets, set = {}, {}
   for _, value in ipairs(tensor and tensor:tolist() or {}) do
      if value ~= value then
         sets[#sets + 1], set = set, {}
      else
         set[value] = true
      end
   end
   if #sets ~= count then node:fail("membership_values: %d sets, expected %d", #sets, count) end
   return sets
end

function M.TreeEnsemble(node, x)
   local splits = node:need("tensor", "nodes_splits"):tolist()
   local features, kinds = node:need("ints", "nodes_featureids"),
      node:need("tensor", "nodes_modes"):tolist()
   local yes, no = node:need("ints", "nodes_truenodeids"), node:need("ints", "nodes_falsenodeids")
   local yes_leaf, no_leaf = node:need("ints", "nodes_trueleafs"),
      node:need("ints", "nodes_falseleafs")
   local targets, weights = node:need("ints", "leaf_targetids"),
      node:need("tensor", "leaf_weights"):tolist()
   local missing = node:ints("nodes_missing_value_tracks_true", {})
   local n = node:need("int", "n_targets")
   local nodes, leaves, members = {}, {}, 0
   for i, weight in ipairs(weights) do leaves[i] = {leaf = {{targets[i], weight}}} end
   for i, kind in ipairs(kinds) do
      local test = tests[modes[kind]] or node:fail("attribute nodes_modes: %d", kind)
      if kind == 6 then members = members + 1 end
      nodes[i] = {feature = features[i], split = splits[i], missing = missing[i] == 1, test = test,
         member = kind == 6 and members}
   end
   local sets = read_members(node, members)
   for i, own in ipairs(nodes) do
      if own.member then own.split = sets[own.member] end
      own.yes = (yes_leaf[i] == 1 and leaves or nodes)[yes[i] + 1]
      own.no = (no_leaf[i] == 1 and leaves or nodes)[no[i] + 1]
   end
   local roots = {}
   for i, root in ipairs(node:need("ints", "tree_roots")) do
      roots[i] = nodes[root + 1] or node:fail("attribute tree_roots: %d", root)
   end
   local scores = evaluate(node, x, roots, n, nil, aggregates[node:int("aggregate_function", 1)])
   local name = transforms[node:int("post_transform", 0)]
   if name == "SOFTMAX" then return scores:softmax(-1) end
   if name == "LOGISTIC" then return torch.sigmoid(scores) end
   if name ~= "NONE" then node:fail("attribute post_transform: %s is not supported", name) end
   return scores
end

return M
