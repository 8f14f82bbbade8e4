-- nodes.lua - runs the node tests of the ONNX standard, which are folders with model.onnx and files
-- of inputs and outputs:
--
--    python rocks/onnx/spec/nodes.py FOLDER     (writes the tests with the package onnx)
--    tlua rocks/onnx/spec/nodes.lua FOLDER [--all] [NAME ...]
--
-- TLUA_SPEC_DEVICE names the device on which the models run, by default the CPU. Prints the number of tests that pass,
-- by the dtypes of their inputs and outputs, and for each failure the test's name and the reason. Tolerances are the
-- standard's: 1e-3 relative, 1e-7 absolute.

local torch = require "tlua"
local onnx = torch.onnx
local schema = require "tlua.onnx.schema"
local values = require "tlua.onnx.values"
local wire = require "tlua.onnx.wire"

local M = {}

-- Reads the type of a value. Returns the name of the message that the value's file contains, and the dtype of the value
-- or of its elements.
local function kind_of(info)
   local proto = info.type or {}
   if proto.optional_type then
      local _, dtype = kind_of {type = proto.optional_type.elem_type}
      return "OptionalProto", dtype
   elseif proto.sequence_type then
      local _, dtype = kind_of {type = proto.sequence_type.elem_type}
      return "SequenceProto", dtype
   end
   return "TensorProto", schema.dtypes[proto.tensor_type and proto.tensor_type.elem_type or 0]
end

-- Returns a value whose tensors are moved to a device.
local function moved(value, device)
   if torch.is_tensor(value) then return value:to(device) end
   if not values.is_sequence(value) then return value end
   local items = {}
   for i = 1, #value do items[i] = moved(value[i], device) end
   return values.sequence(items)
end

local function differs(got, expected, at)
   if expected == nil then return got ~= nil and at .. ": expected nothing" end
   if values.is_sequence(expected) then
      if not values.is_sequence(got) or #got ~= #expected then return at .. ": another sequence" end
      for i, value in ipairs(expected) do
         local why = differs(got[i], value, ("%s[%d]"):format(at, i))
         if why then return why end
      end
      return false
   end
   if values.is_strings(expected) then
      if not values.is_strings(got) or table.concat(got.shape, " ") ~= table.concat(expected.shape, " ")
         or table.concat(got, "\0") ~= table.concat(expected, "\0") then
         return ("%s: expected %s, got %s"):format(at, values.describe(expected), values.describe(got))
      end
      return false
   end
   if not torch.is_tensor(got) or got.dtype ~= expected.dtype
      or table.concat(got.shape, " ") ~= table.concat(expected.shape, " ") then
      return ("%s: expected %s, got %s"):format(at, values.describe(expected), values.describe(got))
   end
   if got:numel() == 0 then return false end
   local a, b = got:detach():to "float64", expected:to "float64"
   if torch.is_complex(got) then a, b = torch.view_as_real(got), torch.view_as_real(expected) end
   if torch.allclose(a, b, {rtol = 1e-3, atol = 1e-7, equal_nan = true}) then return false end
   local worst = (a - b):abs():nan_to_num():max():item()
   return ("%s: the largest difference is %g"):format(at, worst)
end

local function exists(path)
   local file = io.open(path, "rb")
   if file then file:close() end
   return file ~= nil
end

--- Runs one test. Returns the dtypes of its values, and the reason if it fails.
---@param folder string
---@return table<string, boolean> dtypes
---@return string? failure
function M.run(folder)
   local proto = wire.read(wire.open(folder .. "/model.onnx"), "ModelProto")
   local dtypes, inputs, outputs = {}, proto.graph.input or {}, proto.graph.output or {}
   for _, list in ipairs {inputs, outputs} do
      for _, info in ipairs(list) do
         local _, dtype = kind_of(info)
         dtypes[dtype or "unknown"] = true
      end
   end
   local fine, why = pcall(function()
      local device = os.getenv "TLUA_SPEC_DEVICE" or "cpu"
      local model = onnx.load(folder .. "/model.onnx"):to(device)
      local set = 0
      while exists(("%s/test_data_set_%d"):format(folder, set))
         or exists(("%s/test_data_set_%d/output_0.pb"):format(folder, set)) do
         local at = ("%s/test_data_set_%d/"):format(folder, set)
         local given = {}
         for i, info in ipairs(inputs) do
            local path = ("%sinput_%d.pb"):format(at, i - 1)
            if exists(path) then
               given[i] = moved(onnx._read_value(path, (kind_of(info))), device)
            end
         end
         local results = table.pack(model(table.unpack(given, 1, #inputs)))
         for i, info in ipairs(outputs) do
            local expected = onnx._read_value(("%soutput_%d.pb"):format(at, i - 1), (kind_of(info)))
            local difference = differs(moved(results[i], "cpu"), moved(expected, "cpu"), info.name)
            if difference then error(difference, 0) end
         end
         set = set + 1
      end
      if set == 0 then error("no test data", 0) end
   end)
   return dtypes, not fine and tostring(why) or nil
end

--- Runs the tests of a folder. Returns the counts, and the failures by name.
---@param folder string
---@param names string[]
---@param report? fun(name: string, failure: string?)
---@return table counts
function M.run_all(folder, names, report)
   local counts = {float32 = {0, 0}, known = {0, 0}, all = {0, 0}}
   for _, name in ipairs(names) do
      local dtypes, failure = M.run(folder .. "/" .. name)
      local known, only_float32 = true, dtypes.float32
      for dtype in pairs(dtypes) do
         known = known and (dtype == "string" or values.element_size(dtype) ~= nil)
         only_float32 = only_float32 and (dtype == "float32" or dtype == "int64" or dtype == "bool"
            or dtype == "int32")
      end
      for kind, counted in pairs {float32 = only_float32, known = known, all = true} do
         if counted then
            counts[kind][2] = counts[kind][2] + 1
            counts[kind][1] = counts[kind][1] + (failure and 0 or 1)
         end
      end
      if report then report(name, failure, known) end
   end
   return counts
end

if arg and arg[0] and arg[0]:find "nodes%.lua$" then
   local folder, names = arg[1], {}
   for i = 2, #arg do names[#names + 1] = arg[i] end
   if #names == 0 then
      -- Each entry of the folder is "d" if it is a folder, followed by its name and a zero byte.
      local entries = assert(torch.io.folder(folder))
      for name in torch.io.text(entries, 1, entries:numel()):gmatch "d([^%z]+)" do
         if exists(("%s/%s/model.onnx"):format(folder, name)) then names[#names + 1] = name end
      end
      table.sort(names)
   end
   local counts = M.run_all(folder, names, function(name, failure, known)
      if failure then print((known and "FAIL " or "fail ") .. name .. "  " .. failure) end
   end)
   for _, kind in ipairs {"float32", "known", "all"} do
      local n = counts[kind]
      print(("%s: %d of %d pass, %.1f %%"):format(kind, n[1], n[2], 100 * n[1] / math.max(1, n[2])))
   end
end

return M
