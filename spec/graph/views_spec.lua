-- Tests the list of operators whose results may share memory with an argument, by the operators' examples.

local torch = require "tlua"
local table_of = require "spec.support.table"
local views = require "tlua.export.views"

local function address(x)
   local ok, at = pcall(function() return x:numel() > 0 and x:untyped_storage():data_ptr() end)
   return ok and at or nil
end

-- Returns whether a call's results share memory with its arguments.
local function shares(row, args)
   local ok, results = pcall(table_of.call, row, args)
   if not ok then return false end
   local seen = {}
   for _, x in ipairs(table_of.tensors(args)) do seen[address(x) or 0] = true end
   for _, x in ipairs(table_of.tensors(results)) do
      if seen[address(x) or -1] then return true end
   end
   return false
end

describe("the operators whose results may be views", function()
   it("are in the list of replace_pattern", function()
      local missing, count = {}, 0
      for _, row in ipairs(table_of.rows()) do
         local name = row.path:match "[^.]+$"
         if name:sub(-1) ~= "_" and torch._operator_parameters(name) then
            for _, text in ipairs(row.examples) do
               if shares(row, table_of.arguments(text)) then
                  count = count + 1
                  if not views[name] then missing[#missing + 1] = name end
               end
            end
         end
      end
      assert.same({}, missing)
      assert.is_true(count > 40)
   end)
end)
