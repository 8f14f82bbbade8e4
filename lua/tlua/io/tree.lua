-- tree.lua - converts nested tables to a flat list of tensors and a text that describes the
-- structure.
--
-- The text is JSON, and files store it in their metadata under M.key. Tables with string keys
-- become objects, and sequences become arrays. A value that JSON lacks becomes an object with one
-- key that begins with `$`:
--
--    {"$tensor": "model.1.weight"}   the tensor of that name in the file
--    {"$sparse": {"layout": ..., "size": ..., "values": ...}}  a sparse tensor of such components
--    {"$nested": {"values": ..., "offsets": [...], "lengths": [...], "dim": ...}}  a nested tensor;
--                                    lengths are there if there are holes between the sequences
--    {"$quantized": {"integers": ..., "dtype": ..., "scale": ..., "zero_point": ..., "axis": ...}}
--                                    a quantized tensor; the axis is there if it has channels
--    {"$float": "inf"}               a number that is not finite
--    {"$device": "cuda:0"}           a torch.device
--    {"$bytes": "00ff"}              a string that is not UTF-8, in hexadecimal digits
--    {"$pairs": [[key, value], ...]} a table with other keys
--
-- A table that contains only tensors, such as a usual state dict, has no text, because the names of
-- the tensors in the file suffice.

local torch = require "tlua"
local json = require "tlua.utils.json"
local kinds = require "tlua.io.kinds"

local M = {}

--- The metadata key under which a file stores the text that describes the structure of its tables.
M.key = "tlua.structure"

local max_depth <const> = 20 -- each level of tables takes up to three levels of JSON

-- Flattening ---------------------------------------------------------------------------------

local function fail(path, why)
   error({tree = path == "" and why or ("%s: %s"):format(path, why)}, 0)
end

local function join(path, key)
   return path == "" and tostring(key) or path .. "." .. tostring(key)
end

local function is_record(value)
   for key in pairs(value) do
      if type(key) ~= "string" or key:sub(1, 1) == "$" or not utf8.len(key) then return false end
   end
   return true
end

local function flatten_string(text)
   if utf8.len(text) then return text end
   return {["$bytes"] = text:gsub(".", function(c) return ("%02x"):format(c:byte()) end)}
end

local function flatten_number(value)
   if value ~= value then return {["$float"] = "nan"} end
   if value == math.huge then return {["$float"] = "inf"} end
   if value == -math.huge then return {["$float"] = "-inf"} end
   return value
end

local flatten_value

local function flatten_table(value, path, state)
   if not kinds.of(value) then
      fail(path, ("an instance of %s cannot be saved; save its state, such as state_dict()"):format(
         torch.type(value)))
   end
   if state.open[value] then fail(path, "the table contains itself") end
   if state.depth == max_depth then fail(path, "nested too deeply") end
   state.open[value], state.depth = true, state.depth + 1

   local node
   if next(value) ~= nil and kinds.looks_like_list(value) then
      node = json.as_array({})
      for i, item in ipairs(value) do node[i] = flatten_value(item, join(path, i), state) end
   elseif is_record(value) then
      node = {}
      for _, key in ipairs(kinds.sorted_keys(value)) do
         node[key] = flatten_value(value[key], join(path, key), state)
      end
   else
      local list = json.as_array({})
      for _, key in ipairs(kinds.sorted_keys(value)) do
         if type(key) ~= "string" and math.type(key) == nil and type(key) ~= "boolean" then
            fail(path, ("a %s as a key cannot be saved"):format(type(key)))
         end
         local flat_key = flatten_value(key, path, state)
         local item = flatten_value(value[key], join(path, key), state)
         list[#list + 1] = json.as_array({flat_key, item})
      end
      node = {["$pairs"] = list}
   end
   state.open[value], state.depth = nil, state.depth - 1
   return node
end

-- Flattens a sparse tensor: the tensors that it consists of, such as positions and values, become
-- tensors of the file.
local function flatten_sparse(p, path, state)
   local node = {layout = p.layout, size = json.as_array(table.move(p.size, 1, #p.size, 1, {})),
      coalesced = p.coalesced}
   for _, key in ipairs {"indices", "pointers", "plain", "values"} do
      if p[key] then node[key] = flatten_value(p[key], join(path, key), state) end
   end
   return {["$sparse"] = node}
end

local function flatten_nested(x, path, state)
   local p, lengths = torch._wrapped_parts(x, getmetatable(x)), x:lengths()
   return {["$nested"] = {
      values = flatten_value(p.values, join(path, "values"), state), dim = p.dim,
      offsets = json.as_array(x:offsets():tolist()),
      lengths = lengths and json.as_array(lengths:tolist()),
   }}
end

local function flatten_quantized(x, path, state)
   local p, node = require "tlua.io.quantized".parts(x), {}
   for _, key in ipairs {"integers", "dtype", "scale", "zero_point", "axis"} do
      if p[key] then node[key] = flatten_value(p[key], join(path, key), state) end
   end
   return {["$quantized"] = node}
end

function flatten_value(value, path, state)
   local parts = torch._sparse_parts(value)
   if parts then return flatten_sparse(parts, path, state) end
   if torch.is_tensor(value) and value.is_nested then return flatten_nested(value, path, state) end
   if torch.is_tensor(value) and value.is_quantized then
      return flatten_quantized(value, path, state)
   end
   if torch.is_tensor(value) then
      -- an empty path means that the saved object itself is a tensor
      if path == "" then path = "tensor" end
      if not utf8.len(path) then fail(path, "a name that is not UTF-8") end
      if path == "__metadata__" then fail(path, "the name is the format's own") end
      if state.names[path] then fail(path, "two tensors of this name") end
      state.names[path] = true
      table.insert(state.entries, {name = path, tensor = value})
      return {["$tensor"] = path}
   end
   local kind = type(value)
   if kind == "string" then return flatten_string(value) end
   if kind == "number" then return flatten_number(value) end
   if kind == "boolean" then return value end
   if kind == "table" then return flatten_table(value, path, state) end
   if torch.type(value) == "torch.device" then return {["$device"] = tostring(value)} end
   fail(path, ("a %s cannot be saved"):format(kind))
end

-- Returns whether a table consists only of dense tensors under string keys, so that their names
-- describe it completely.
local function only_tensors(object)
   for key, value in pairs(object) do
      local dense = torch.is_tensor(value) and not torch._sparse_parts(value)
         and not value.is_nested and not value.is_quantized
      if type(key) ~= "string" or not dense then return false end
   end
   return true
end

--- Converts a value to a list of tensors and the text.
---@param object any
---@return {name: string, tensor: Tensor}[]? entries  nil on failure
---@return string? structure  nil for a table that contains only tensors
---@return string? message
function M.flatten(object)
   local state = {entries = {}, names = {}, open = {}, depth = 0}
   local ok, node = pcall(flatten_value, object, "", state)
   if not ok then
      if type(node) == "table" and node.tree then return nil, nil, node.tree end
      error(node, 0)
   end
   local plain = type(object) == "table" and only_tensors(object)
   return state.entries, not plain and json.encode(node) or nil
end

-- Rebuilding ---------------------------------------------------------------------------------

local floats = {nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge}

local rebuild_value

local special = {}

special["$tensor"] = function(name, tensors)
   local tensor = type(name) == "string" and tensors[name]
   if not tensor then
      fail("", ("the structure names a tensor %s that the file lacks"):format(name))
   end
   return tensor
end

special["$sparse"] = function(node, tensors)
   local p = type(node) == "table" and rebuild_value(node, tensors) or {}
   local made, s = pcall(function()
      local options = {is_coalesced = p.coalesced, check_invariants = true}
      if p.layout == "sparse_coo" then
         return torch.sparse_coo_tensor(p.indices, p.values, p.size, options)
      end
      return torch.sparse_compressed_tensor(p.pointers, p.plain, p.values, p.size,
         {layout = p.layout, check_invariants = true})
   end)
   if not made then
      fail("", "the structure has a malformed sparse tensor: " .. tostring(s):gsub("^.-:%d+: ", ""))
   end
   return s
end

special["$nested"] = function(node, tensors)
   local p = type(node) == "table" and rebuild_value(node, tensors) or {}
   local made, x = pcall(function()
      local function integers(list)
         return list and torch.tensor(list, {dtype = "int64", device = p.values.device})
      end
      return torch.nested.nested_tensor_from_jagged(p.values, integers(p.offsets),
         integers(p.lengths), {jagged_dim = p.dim})
   end)
   if not made then
      fail("", "the structure has a malformed nested tensor: " .. tostring(x):gsub("^.-:%d+: ", ""))
   end
   return x
end

special["$quantized"] = function(node, tensors)
   local p = type(node) == "table" and rebuild_value(node, tensors) or {}
   local there, quantized = pcall(require, "tlua.io.quantized")
   if not there then
      fail("", "the structure has a quantized tensor, which this small library cannot make")
   end
   local x, why = quantized.rebuild(p)
   return x or fail("", "the structure has " .. why)
end

special["$float"] = function(name)
   return floats[name] or fail("", "the structure has an unknown number")
end

special["$device"] = function(name)
   return type(name) == "string" and torch._to_device(name)
      or fail("", "the structure has an unknown device")
end

special["$bytes"] = function(digits)
   if type(digits) ~= "string" or #digits % 2 ~= 0 or digits:find "%X" then
      fail("", "the structure has a malformed string")
   end
   return (digits:gsub("..", function(pair) return string.char(tonumber(pair, 16)) end))
end

special["$pairs"] = function(list, tensors)
   if not json.is_array(list) then fail("", "the structure has a malformed table") end
   local object = {}
   for i = 1, #list do
      local pair = list[i]
      if not json.is_array(pair) or #pair ~= 2 then
         fail("", "the structure has a malformed table")
      end
      local key = rebuild_value(pair[1], tensors)
      if type(key) == "table" or key ~= key then fail("", "the structure has a malformed key") end
      object[key] = rebuild_value(pair[2], tensors)
   end
   return object
end

function rebuild_value(node, tensors)
   if type(node) ~= "table" then return node end
   if node == json.null then fail("", "the structure has a null") end
   local object = {}
   if json.is_array(node) then
      for i = 1, #node do object[i] = rebuild_value(node[i], tensors) end
      return object
   end
   local key, value = next(node)
   if key and key:sub(1, 1) == "$" then
      if not special[key] or next(node, key) ~= nil then
         fail("", ("the structure has an unknown mark %s"):format(key))
      end
      return special[key](value, tensors)
   end
   for name, item in pairs(node) do object[name] = rebuild_value(item, tensors) end
   return object
end

--- Rebuilds a table from the text and the tensors.
---@param structure string
---@param tensors table<string, Tensor>
---@return any object
---@return string? message  an error message, if any
function M.rebuild(structure, tensors)
   local node, message = json.decode(structure)
   if node == nil then return nil, "the structure is not JSON: " .. message end
   local ok, object = pcall(rebuild_value, node, tensors)
   if ok then return object end
   if type(object) == "table" and object.tree then return nil, object.tree end
   error(object, 0)
end

return M
