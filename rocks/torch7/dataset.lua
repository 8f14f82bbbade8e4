-- dataset.lua - Torch7's package dataset (by Twitter). An index lists records, and a sampler
-- chooses the records of a batch. An index is made from a tensor of records; from {x = records, y =
-- labels}; from a file of such tensors; from a .csv file with names of files and their labels; or
-- from a folder with a subfolder for each label.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local classes = require "tlua.torch7.classes"
local types = require "tlua.torch7.types"
local paths = require "tlua.torch7.paths"
local read_file = require "tlua.utils.read_file"

local is_tensor = types.is_tensor

local function check(condition, format, ...)
   if not condition then tlua.raise("dataset: " .. format:format(...)) end
end

-- Indexes -----------------------------------------------------------------------------------------

-- An index has the fields `records`, `labels` (a list of labels for each record) and `get`, a
-- function that returns the content of a record.

local function of_tensor(records, labels)
   check(is_tensor(records) and records:dim() >= 1, "expected a tensor of records, got %s",
      classes.type(records))
   check(labels == nil or is_tensor(labels) and labels:size(1) == records:size(1),
      "expected a label for each of %d records, got %s", records:size(1),
      is_tensor(labels) and labels:dim() > 0 and labels:size(1) or classes.type(labels))
   local index = {records = {}, labels = {}, get = function(record) return record end}
   for i = 1, records:size(1) do
      index.records[i] = records:dim() == 1 and records:narrow(1, i, 1) or records:select(1, i)
      index.labels[i] = labels and {labels:dim() == 1 and labels[i] or labels:select(1, i)} or {}
   end
   return index
end

local function lines_of(path)
   local list, text, problem = {}, read_file(path)
   check(text, "%s", problem)
   for line in (text .. "\n"):gmatch "(.-)\r?\n" do
      if line ~= "" then list[#list + 1] = line end
   end
   return list
end

local function of_csv(path)
   local index, folder = {records = {}, labels = {}, get = read_file}, paths.dirname(path)
   local meta = path:gsub("%.csv$", "-meta.csv")
   if paths.filep(meta) then
      folder = lines_of(meta)[2]
      check(folder and not folder:find "^%a+://", "%s: expected a folder on this machine, got %s",
         meta, tostring(folder))
   end
   for i, line in ipairs(lines_of(path)) do
      if i > 1 then -- The first line contains the names of the columns, so it is skipped.
         local fields = {}
         for text in (line .. ","):gmatch "([^,]*)," do fields[#fields + 1] = text end
         local name = table.remove(fields, 1)
         index.records[i - 1] = name:find "^/" and name or folder .. "/" .. name
         index.labels[i - 1] = fields
      end
   end
   return index
end

local function of_folder(path)
   local index = {records = {}, labels = {}, get = read_file}
   local function add(folder, label)
      local names = {}
      for name in paths.iterfiles(folder) do names[#names + 1] = name end
      table.sort(names)
      for _, name in ipairs(names) do
         index.records[#index.records + 1] = folder .. "/" .. name
         index.labels[#index.records] = label and {label} or {}
      end
   end
   add(path)
   local folders = {}
   for name in paths.iterdirs(path) do folders[#folders + 1] = name end
   table.sort(folders)
   for _, name in ipairs(folders) do add(path .. "/" .. name, name) end
   return index
end

local function index_of(source)
   if is_tensor(source) then return of_tensor(source) end
   if type(source) == "table" then
      check(source.x ~= nil, "expected {x = records, y = labels}, got a table without x")
      return of_tensor(source.x, source.y)
   end
   check(type(source) == "string", "expected a tensor, a table or a path, got %s",
      classes.type(source))
   check(not source:find "^%a+://", "%s: expected a path on this machine", source)
   if paths.dirp(source) then return of_folder(source) end
   check(paths.filep(source), "%s: there is no such file or folder", source)
   if source:find "%.csv$" then return of_csv(source) end
   return index_of(torch.load(source))
end

-- Keeps only the part `options.partition` of the records of an index, out of `options.partitions`
-- equal parts. Numbers the labels in sorted order.
local function finish(index, options)
   local part, parts, n = options.partition or 1, options.partitions or 1, #index.records
   check(math.tointeger(parts) and math.tointeger(part) and part >= 1 and part <= parts,
      "partition: expected a number from 1 to %s, got %s", tostring(parts), tostring(part))
   local first, last = (part - 1) * n // parts + 1, part * n // parts
   index.records = table.move(index.records, first, last, 1, {})
   index.labels = table.move(index.labels, first, last, 1, {})
   index.names, index.numbers, index.of_label = {}, {}, {}
   for i, labels in ipairs(index.labels) do
      for _, label in ipairs(labels) do
         if not is_tensor(label) then
            if not index.of_label[label] then
               index.of_label[label] = {}
               table.insert(index.names, label)
            end
            table.insert(index.of_label[label], i)
         end
      end
   end
   table.sort(index.names)
   for number, name in ipairs(index.names) do index.numbers[name] = number end
   return index
end

-- Samplers ----------------------------------------------------------------------------------------

local function permuted(n)
   return n > 0 and torch.randperm(n):totable() or {}
end

-- Returns a function that returns the positions 1 to n, one at each call. order(n), if given,
-- returns the list of positions to use instead. After the last position the function returns nil
-- once, and then begins again. The second result is a function that begins again at once.
local function in_order(n, order)
   local at, list = 0, nil
   return function()
      if at == 0 then list = order and order(n) end
      at = at + 1
      if at > n then
         at = 0
         return nil
      end
      return list and math.tointeger(list[at]) or at
   end, function() at = 0 end
end

local samplers = {}
function samplers.linear(index) return in_order(#index.records) end
function samplers.permutation(index) return in_order(#index.records, permuted) end
function samplers.uniform(index)
   return function() return math.tointeger(torch.random(1, #index.records)) end
end

local function check_label(index, label)
   check(#index.names > 0, "expected labels for this sampler, got %d records without labels",
      #index.records)
   check(label == nil or index.of_label[label], "there is no label %s", tostring(label))
end

-- Returns a sampler that draws a record with the label that is passed. If no label is passed, it
-- draws a label first.
samplers["label-uniform"] = function(index)
   return function(label)
      check_label(index, label)
      local list = index.of_label[label or index.names[torch.random(1, #index.names)]]
      return list[torch.random(1, #list)]
   end
end
-- Returns a sampler that returns the records with the label that is passed, in random order. If no
-- label is passed, the labels take turns.
samplers["label-permutation"] = function(index)
   local left, turn = {}, 0
   return function(label)
      check_label(index, label)
      if not label then
         turn = turn % #index.names + 1
         label = index.names[turn]
      end
      local list = index.of_label[label]
      if not left[label] or #left[label] == 0 then left[label] = permuted(#list) end
      return list[math.tointeger(table.remove(left[label]))]
   end, function() left, turn = {}, 0 end
end
samplers["label-distribution"] = function(index, options)
   local weights, total = options.distribution, 0
   check(type(weights) == "table", "distribution: expected a table of weights for labels, got %s",
      type(weights))
   for label, weight in pairs(weights) do
      check_label(index, label)
      total = total + weight
   end
   return function()
      local at = torch.uniform(0, total)
      for _, label in ipairs(index.names) do
         at = at - (weights[label] or 0)
         if at < 0 then return index.of_label[label][torch.random(1, #index.of_label[label])] end
      end
      return index.of_label[index.names[#index.names]][1]
   end
end

local function sampler_of(index, kind, options)
   local make = samplers[kind]
   if not make then
      local names = {}
      for name in pairs(samplers) do names[#names + 1] = name end
      table.sort(names)
      check(false, "samplerKind: expected one of %s, got %s", table.concat(names, ", "),
         tostring(kind))
   end
   return make(index, options)
end

-- Batches -----------------------------------------------------------------------------------------

-- Fetches one record from each index, at the given positions. Returns nil if the first record
-- cannot be fetched.
local function fetch(indexes, gets, positions)
   local results = {n = #indexes}
   for k, index in ipairs(indexes) do
      local good, result = pcall(gets[k] or index.get, index.records[positions[k]])
      results[k] = good and result or nil
   end
   return results[1] ~= nil and results or nil
end

local function list_of(value) return type(value) == "table" and value or {value} end

local function sampled_batcher(indexes, options)
   options = options or {}
   check(type(options) == "table", "options: expected a table, got %s", type(options))
   local size = math.tointeger(options.batchSize or 1)
   check(size and size >= 1, "batchSize: expected a count of records, got %s",
      tostring(options.batchSize))
   local dims, processor = options.inputDims or {1}, options.processor
   check(processor == nil or type(processor) == "function",
      "processor: expected a function, got %s", type(processor))
   local kinds, gets = list_of(options.samplerKind or "linear"), list_of(options.get)
   local next_of, resets = {}, {}
   for k, index in ipairs(indexes) do
      next_of[k], resets[k] = sampler_of(index, kinds[k] or kinds[1], options)
   end
   local first = indexes[1]

   -- Puts the record at `positions` into position `at` of a batch. Returns false if the record
   -- cannot be fetched or the option `processor` refuses it.
   local function put(batch, at, positions)
      local results = fetch(indexes, gets, positions)
      if not results then return false end
      local place = batch.input:select(1, at)
      if not is_tensor(place) then place = batch.input:narrow(1, at, 1) end
      if processor then
         local list = table.move(results, 1, results.n, 1, {})
         list[results.n + 1], list[results.n + 2] = options.processorOpt or {}, place
         if not processor(table.unpack(list, 1, results.n + 2)) then return false end
      else
         check(is_tensor(results[1]), "processor: expected a function, since records are %s",
            type(results[1]))
         place:copy(results[1])
      end
      local label = first.labels[positions[1]][1]
      batch.target[at] = is_tensor(label) and 0 or first.numbers[label] or 0
      batch.item[at], batch.label[at] = first.records[positions[1]], label
      return true
   end

   local function get_batch(label)
      local batch = {input = torch.Tensor(size, table.unpack(dims)):zero(),
         target = torch.Tensor(size):zero(), item = {}, label = {}, batchSize = 0}
      while batch.batchSize < size do
         local positions = {}
         for k = 1, #indexes do positions[k] = next_of[k](label) end
         if not positions[1] then break end
         for k = 2, #indexes do positions[k] = positions[k] or next_of[k](label) end
         if put(batch, batch.batchSize + 1, positions) then
            batch.batchSize = batch.batchSize + 1
         end
      end
      if batch.batchSize == 0 then return batch end
      batch.input = batch.input:narrow(1, 1, batch.batchSize)
      batch.target = batch.target:narrow(1, 1, batch.batchSize)
      if options.cuda then batch.input, batch.target = batch.input:cuda(), batch.target:cuda() end
      return batch
   end
   local function count() return (#first.records + size - 1) // size end
   local function reset()
      for k = 1, #indexes do
         if resets[k] then resets[k]() end
      end
   end
   return get_batch, count, reset
end

-- Returns whether a value is a list of several indexes.
local function is_list(source)
   return type(source) == "table" and not is_tensor(source) and source[1] ~= nil
      and source.x == nil
end

--- Makes a dataset from an index or a list of indexes. The dataset's function
--- sampledBatcher(options) returns three functions: getBatch, a function that returns the number of
--- batches, and reset. A batch has the fields input, target (the numbers of the labels), item,
--- label and batchSize.
---@param source any
---@param options? {partition: integer?, partitions: integer?}
---@return table dataset
---@return fun(): integer size
return function(source, options)
   local indexes = {}
   check(source ~= nil, "expected a tensor, a table or a path, got nil")
   check(options == nil or type(options) == "table", "options: expected a table, got %s",
      type(options))
   for k, one in ipairs(is_list(source) and source or {source}) do
      indexes[k] = finish(index_of(one), options or {})
   end
   local dataset = {index = indexes[1]}
   function dataset.sampledBatcher(batches) return sampled_batcher(indexes, batches) end
   function dataset.sampler(kind, settings)
      local at, reset = sampler_of(indexes[1], kind, settings or {})
      return function(label)
         local i = at(label)
         if i then return indexes[1].records[i], indexes[1].labels[i][1] end
      end, reset
   end
   return dataset, function() return #indexes[1].records end
end
