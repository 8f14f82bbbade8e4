-- Tests the C program of `make infer`, which recognises digits with a small library. Also tests the messages by which
-- that library names the features that it does not contain.

local shell = require "spec.support.shell"

local program = shell.build .. "/infer/digits"

-- Trains a network for a short time and writes its weights. Returns how many digits the full library recognises with
-- these weights.
local function train(weights)
   shell.ok(("%s examples/digits.lua --epochs 2 --threads 1 --save %s"):format(shell.tlua, weights))
   return tonumber(shell.ok(("%s -e %s"):format(shell.tlua, shell.quote(([[
      local read = loadfile "examples/infer/digits.lua" %q
      local rows = torch.data.CSV("examples/data/digits.csv", {header = false}):tensor()
      local images = rows:narrow(2, 1, 64):float():div(16):view(-1, 1, 8, 8)
      print(read(images):eq(rows:select(2, 65)):sum():item())]]):format(weights)))))
end

-- Runs the program with a script in place of the model. Returns the text that the program prints.
local function refused(script)
   return shell.with_folder(function(folder)
      shell.write(folder .. "/model.lua", script)
      local output, status = shell.run(("%s %s/model.lua none examples/data/digits.csv"):format(program, folder))
      assert.are_not.equal(0, status, output)
      return output
   end)
end

describe("PROFILE=infer", function()
   it("reads digits from C as the whole library does", shell.in_folder(function(folder)
      local right = train(folder .. "/digits.safetensors")
      assert.truthy(right > 1600, right)
      local output = shell.ok(("%s examples/infer/digits.lua %s/digits.safetensors " ..
         "examples/data/digits.csv"):format(program, folder))
      assert.equal(("%d of 1797 digits read right\n"):format(right), output)
   end))

   it("names an operator that it leaves out, at the call", function()
      for _, call in ipairs {"torch.conv3d(x)", "x:conv3d()", "torch.nn.functional.conv3d(x)"} do
         local output = refused('local torch = require "tlua"\nlocal x = torch.ones(2)\n' .. call)
         if call ~= "x:conv3d()" then
            assert.matches("model.lua:3: conv3d: not in this build (PROFILE=infer); add it to OPS", output, 1, true)
         end
      end
      assert.matches("model.lua:1: cumsum: not in this build (PROFILE=infer); add it to OPS",
         refused 'require "tlua".ones(2):cumsum(1)', 1, true)
      assert.matches("model.lua:1: cumsum_: not in this build (PROFILE=infer); add it to OPS",
         refused 'require "tlua".ones(2):cumsum_(1)', 1, true)
   end)

   it("does not have the fields that it leaves out", function()
      assert.matches("model.lua:2: false true true", refused [[
local torch = require "tlua"
error(("%s %s %s"):format(torch.has "optim.Adam", torch.has "nn.functional.relu", torch.has "nn"))]], 1, true)
   end)

   it("names a part of the library that it leaves out", function()
      assert.matches("model.lua:1: torch.optim: tlua.optim is not in this build (PROFILE=infer)",
         refused 'local optim = require "tlua".optim', 1, true)
      assert.matches("model.lua:1: torch.distributed: tlua.distributed is not in this build", refused
         'require "tlua".distributed.init_process_group()', 1, true)
   end)

   it("names torch.export, the profiler and complex dtypes, which it leaves out", function()
      for _, name in ipairs {"export", "profiler"} do
         assert.matches(("model.lua:1: torch.%s: tlua.%s is not in this build (PROFILE=infer)")
            :format(name, name), refused(('local x = require "tlua".%s'):format(name)), 1, true)
      end
      for call, dtype in pairs {
         ["torch.zeros(2, {dtype = torch.complex64})"] = "complex64",
         ["torch.zeros(2):to(torch.complex128)"] = "complex128",
         ["torch.ones(2) * torch.complex(1, 2)"] = "complex128",
         ["torch.ones(2, {dtype = torch.float64}):view(torch.complex64)"] = "complex64",
      } do
         assert.matches(dtype .. " is not in this build (PROFILE=infer)",
            refused('local torch = require "tlua"\nlocal x = ' .. call), 1, true)
      end
   end)

   it("records nothing to differentiate", function()
      assert.matches("backward", refused [[
         local torch = require "tlua"
         torch.ones(1, {requires_grad = true}):relu():backward()]])
   end)

   it("reports other unknown names as the whole library does", function()
      assert.matches("Tensor has no field 'foo'", refused 'local x = require "tlua".ones(1).foo', 1, true)
   end)
end)
