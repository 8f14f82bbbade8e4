-- Tests every operator of the operator table in a recorded program, with the examples of the operator's entry. The
-- program must return the same bits as the operator, also after it is saved and loaded. An operator that cannot be
-- recorded must raise an error that says so.

local device = require "spec.support.device"
local table_of = require "spec.support.table"
local torch = require "tlua"
local saved = require("spec.support.programs").saved

-- Operator forms that return values other than tensors, or results whose sizes depend on values.
local REFUSED <const> = {
   "_nms", "allclose", "argwhere", "bincount", "equal", "is_conj", "is_neg", "is_nonzero", "is_same_size",
   "is_signed", "masked_select", "nonzero", "nonzero_tuple", "one_hot", "repeat_interleave_each",
   "repeat_interleave_positions", "unique", "unique_consecutive", "where_positions",
}

-- On a device, operators that move a tensor to the CPU are refused too.
if device.name then
   table.move({"to_device", "to_device_only", table.unpack(REFUSED, 17)}, 1, 5, 17, REFUSED)
end

-- Returns the arguments, with `tensors` at the positions `places`.
local function with_tensors(args, places, tensors)
   return table_of.map(args, function(x) return tensors[places[x]] end)
end

-- Compares two lists of tensors. Returns a description of how they differ in shape, dtype or bits, or nil.
local function difference(expected, actual)
   if #expected ~= #actual then return ("%d results instead of %d"):format(#actual, #expected) end
   for i, e in ipairs(expected) do
      local a = actual[i]
      if e.dtype ~= a.dtype or table.concat(e.shape, ",") ~= table.concat(a.shape, ",") then
         return ("result %d is %s {%s} instead of %s {%s}"):format(i, a.dtype, table.concat(a.shape, ", "),
            e.dtype, table.concat(e.shape, ", "))
      end
      local equal = e:eq(a) | (e:ne(e) & a:ne(a))
      if not equal:all():item() then return ("result %d has other values"):format(i) end
   end
end

-- Runs an example directly and in a program. Returns a description of the difference, or nil, and the error message if
-- the operator was refused.
local function check(row, text)
   local args = table_of.map(table_of.arguments(text), function(x) return x:detach():contiguous() end)
   local places, tensors = {}, table_of.tensors(args)
   for i, x in ipairs(tensors) do places[x] = i end
   local function model(list) return table_of.tensors(table_of.call(row, with_tensors(args, places, list), true)) end
   torch.manual_seed(7)
   local expected = torch.no_grad(function() return model(tensors) end)
   if #expected == 0 then return nil, "no tensors" end
   local ok, program = pcall(torch.export, model, {tensors})
   if not ok then return nil, tostring(program) end
   local loaded = saved(program)
   for _, p in ipairs {program, program, loaded} do
      torch.manual_seed(7)
      local fault = difference(expected, (p(tensors)))
      if fault then return fault end
   end
end

describe("in a program", function()
   local refusing, recorded = {}, 0
   for _, row in ipairs(table_of.rows()) do
      -- GPUs do not support complex32
      if #row.examples > 0 and not (row.name == "chalf" and device.name == "cuda") then
         it(row.form, function()
            for _, text in ipairs(row.examples) do
               local fault, refusal = check(row, text)
               assert(not fault, ("%s(%s): %s"):format(row.path, text, fault))
               if refusal then refusing[row.form] = refusal else recorded = recorded + 1 end
            end
         end)
      end
   end

   it("only operators that no program can repeat are refused", function()
      local names = {}
      for name in pairs(refusing) do names[#names + 1] = name end
      table.sort(names)
      assert.same(REFUSED, names)
      for name, message in pairs(refusing) do
         assert(message == "no tensors" or message:find("so torch.export cannot record it", 1, true),
                name .. ": " .. message)
      end
      assert(recorded > 1200, recorded .. " examples were recorded")
   end)
end)
