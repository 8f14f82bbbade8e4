-- Tests every operator of the operator table on the simulated device, with the examples of the operator's entry.
-- Results and gradients must equal the CPU's bit for bit, and results must be on the device. The host may wait for the
-- device only if the entry has `waits`.

local torch = require "tlua"
local table_of = require "spec.support.table"

-- The results of these operators are on another device than their inputs.
local elsewhere <const> = {cpu = true, to_device = true, to_device_only = true}

local function on_sim(x)
   local copy = x:detach():to("sim")
   return x.requires_grad and copy:requires_grad_() or copy
end

-- Returns row-major copies of the CPU's tensors. Copies from a device are row-major too, so both can be compared.
local function row_major(x)
   local copy = x:detach():contiguous()
   return x.requires_grad and copy:requires_grad_() or copy
end

-- Returns a description of how two tensors differ, or nil if they are equal. Zeros of different signs count as
-- different.
local function difference(expected, actual)
   expected, actual = expected:detach(), actual:detach():cpu()
   local ok, fault = pcall(assert.close, expected, actual, 0)
   if not ok then return type(fault) == "table" and fault.message or tostring(fault) end
   if expected:is_floating_point() and not torch.equal(expected:signbit(), actual:signbit()) then
      return "signs of zeros or NaN differ"
   end
end

-- Compares packed results with the expected ones. Returns a description of a difference, or nil.
local function compare(row, expected, actual)
   return table_of.compare(expected, actual, function(e, a)
      if not elsewhere[row.form] and a.device ~= torch.device "sim:0" then return "is on " .. tostring(a.device) end
      return difference(e, a)
   end)
end

-- Runs an example on the CPU and on the device. Returns a description of the difference, or nil, and whether the host
-- has waited.
local function check(row, text)
   local args = table_of.map(table_of.arguments(text), row_major)
   local expected = table_of.call(row, args)
   local there = table_of.map(args, on_sim)
   local before = torch.sim.waits()
   local actual = table_of.call(row, there)
   local waited = torch.sim.waits() > before
   torch.sim.synchronize() -- completes non_blocking copies to the CPU before their results are compared
   local fault = compare(row, expected, actual)
   local smooth = row.differentiable and not table_of.undefined[row.name]
   local grads = not fault and smooth and table_of.gradients(args, expected)
   if grads then
      fault = compare({}, grads, table_of.gradients(there, actual))
      fault = fault and "gradient: " .. fault
   end
   return fault, waited
end

local function check_row(row)
   local faults, some_waited = {}, false
   for _, text in ipairs(row.examples) do
      local ok, fault, waited = xpcall(check, debug.traceback, row, text)
      if fault then faults[#faults + 1] = ("%s(%s): %s"):format(row.path, text, fault) end
      if ok and waited and not row.waits then
         faults[#faults + 1] = ("%s(%s): the host has waited"):format(row.path, text)
      end
      some_waited = some_waited or ok and waited
   end
   if #faults == 0 and row.waits and #row.examples > 0 and not some_waited then
      faults[1] = "the entry says `waits`, but the host does so in no example"
   end
   return faults
end

describe("on the simulated device", function()
   local default
   before_each(function()
      default = torch.get_default_device()
      torch.set_default_device("cpu")
   end)
   after_each(function() torch.set_default_device(default) end)

   for _, row in ipairs(table_of.rows()) do
      if #row.examples > 0 then
         it(row.form, function()
            local faults = check_row(row)
            assert(#faults == 0, "\n" .. table.concat(faults, "\n"))
         end)
      end
   end
end)

it("the manual lists the operators that wait, with the reason", function()
   local text = "Waits for the device: the result's shape depends on the data."
   for _, row in ipairs(table_of.rows()) do
      if row.form == "nonzero" then assert.truthy(table_of.doc(row):find(text, 1, true)) end
   end
end)
