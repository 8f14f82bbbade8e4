-- Tests every operator of the operator table on the meta device, with the examples of the operator's entry. Results and
-- gradients must be on meta, have the shapes, dtypes and strides of the CPU's, and draw no random numbers. An operator
-- that needs the values of its arguments must raise an error that says so. Only operators whose entry has `waits` may
-- raise it.

local table_of = require "spec.support.table"
local torch = require "tlua"

-- The results of these operators are on another device than their inputs.
local elsewhere <const> = {to_device = true, to_device_only = true}

-- Operator forms that return Lua values, results whose shapes depend on values, or results on the CPU.
local VALUES <const> = {
   "_nms", "allclose", "argwhere", "bincount", "cpu", "equal", "gru_data", "is_nonzero", "lstm_data", "masked_select",
   "narrow_tensor", "nonzero", "nonzero_tuple", "one_hot", "repeat_interleave_each", "repeat_interleave_positions",
   "rnn_relu_data", "rnn_tanh_data", "tensor_split_tensor", "to_device", "to_device_only", "unique",
   "unique_consecutive", "where_positions",
}

local function kept(x, copy) return x.requires_grad and copy:requires_grad_() or copy end

local function on_meta(x) return kept(x, x:detach():to "meta") end

local function as_made(x) return x end

-- Returns a tensor with the same values, whose dimensions are in the opposite order in memory.
local function reversed(x)
   local order = {}
   for d = 1, x.ndim do order[d] = x.ndim + 1 - d end
   if x.ndim < 2 then return x end
   return kept(x, x:detach():permute(order):contiguous():permute(order))
end

local function told(x)
   return ("%s of %s with strides {%s} on %s"):format(
      "{" .. table.concat(x.shape, ", ") .. "}", x.dtype, table.concat(x:stride(), ", "), x.device)
end

-- Compares packed results. Returns a description of a difference, or nil if they agree.
local function compare(row, expected, actual)
   local e, a = table_of.tensors(expected), table_of.tensors(actual)
   if expected.n ~= actual.n or #e ~= #a then return ("%d results instead of %d"):format(#a, #e) end
   for i = 1, #e do
      local there = told(a[i])
      local here = told(e[i]):gsub("cpu$", elsewhere[row.form] and e[i].device or "meta")
      if here ~= there then return ("result %d is %s instead of %s"):format(i, there, here) end
   end
end

-- Runs an example on the CPU and on meta. Returns a description of the difference, or nil, and whether the example
-- needed values.
local function check(row, text, form)
   local args = table_of.map(table_of.arguments(text), form)
   local there = table_of.map(args, on_meta)
   local fits, expected = pcall(table_of.call, row, args)
   local ok, actual = pcall(table_of.call, row, there)
   -- if the CPU refuses these strides, the meta device must refuse them too
   if not fits then return (ok or actual ~= expected) and ("%s instead of %s"):format(actual, expected) end
   if not ok then
      if tostring(actual):find "a meta tensor" then return nil, true end
      return tostring(actual)
   end
   local drawn = torch.rand(1):item()
   torch.manual_seed(7)
   if torch.rand(1):item() ~= drawn then return "it has drawn random numbers" end
   local fault = compare(row, expected, actual)
   local smooth = row.differentiable and not table_of.undefined[row.name]
   local grads = not fault and smooth and table_of.gradients(args, expected)
   if not grads then return fault end
   fault = compare({}, grads, table_of.gradients(there, actual))
   return fault and "gradient: " .. fault
end

local function check_row(row)
   local faults, refused = {}, false
   for _, text in ipairs(row.examples) do
      for _, form in ipairs {as_made, reversed} do
         local ok, fault, asked = xpcall(check, debug.traceback, row, text, form)
         if fault or not ok then
            faults[#faults + 1] = ("%s(%s)%s: %s"):format(row.path, text,
               form == reversed and ", reversed" or "", fault)
         end
         refused = refused or asked
      end
   end
   return faults, refused
end

describe("on the meta device", function()
   local default
   before_each(function()
      default = torch.get_default_device()
      torch.set_default_device "cpu"
   end)
   after_each(function() torch.set_default_device(default) end)

   local refusing = {}
   for _, row in ipairs(table_of.rows()) do
      if #row.examples > 0 then
         it(row.form, function()
            local faults, refused = check_row(row)
            assert(#faults == 0, "\n" .. table.concat(faults, "\n"))
            assert(row.waits or not refused, "asks for values, but its entry has no `waits`")
            if refused then refusing[row.form] = true end
         end)
      end
   end

   it("only operators that need values fail", function()
      local names = {}
      for name in pairs(refusing) do names[#names + 1] = name end
      table.sort(names)
      assert.same(VALUES, names)
   end)
end)
