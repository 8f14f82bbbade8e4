-- Tests use_deterministic_algorithms "portable", which gives the same bits on every machine. bits.txt has a hash for
-- each call of calls.lua. One machine has written it by `tlua spec/portable/hashes.lua >spec/portable/bits.txt`. Other
-- machines, compilers, instruction sets and numbers of threads must give the same hashes. Write the file again after an
-- intended change of an operator, an example or a kernel.

local shell = require "spec.support.shell"
local torch = require "tlua"

local has_mode = pcall(torch.use_deterministic_algorithms, "portable")
torch.use_deterministic_algorithms(false)

local function read(text)
   local groups = {}
   for name, hashes in text:gmatch "([^\n]-): ([^\n]+)" do groups[name] = hashes end
   return groups
end

local file <close> = assert(io.open "spec/portable/bits.txt")
local expected = read(file:read "a")

-- Returns the names of groups whose hashes differ from those in the file, and the number of groups in the file. Groups
-- that the file lacks, such as new operators, must give the same hashes in all processes.
local function differences(environment, threads)
   local out = shell.ok(("%s TLUA_BUILD=%s %s spec/portable/hashes.lua %s"):format(environment,
      shell.quote(shell.build), shell.start(), threads))
   local now, bad, count = read(out), {}, 0
   for name, hashes in pairs(now) do expected[name] = expected[name] or hashes end
   for name, hashes in pairs(expected) do
      count = count + 1
      if now[name] ~= hashes then bad[#bad + 1] = name end
   end
   table.sort(bad)
   return bad, count
end

describe("portable determinism", function()
   after_each(function() torch.use_deterministic_algorithms(false) end)

   it("is refused by a build that has no portable loops", function()
      if has_mode then return pending "this build has portable loops" end
      assert.raises("built for one kind of processor", function() torch.use_deterministic_algorithms "portable" end)
      assert.is_false(torch.are_deterministic_algorithms_enabled())
   end)

   for _, case in ipairs {{"", "1"}, {"TLUA_ISA=x86-64-v2", "3"}, {"TLUA_ISA=x86-64-v3", ""}} do
      it(("gives the same bits with %s and %s threads"):format(case[1] == "" and "the best instructions" or case[1],
         case[2] == "" and "all" or case[2]), function()
         if not has_mode then return pending "this build has no portable loops (ISAS)" end
         local bad, count = differences(case[1], case[2])
         assert.same({}, bad)
         assert.is_true(count > 700)
      end)
   end

   it("gives the same bits of matrix products with vectors of all widths", function()
      if not has_mode then return pending "this build has no portable loops (ISAS)" end
      local function hash(environment)
         return shell.ok(("%s TLUA_BUILD=%s %s spec/portable/products.lua"):format(environment,
            shell.quote(shell.build), shell.start()))
      end
      local narrow = hash "TLUA_ISA=x86-64-v2"
      assert.equal(narrow, hash "TLUA_ISA=x86-64-v3")
      assert.equal(narrow, hash "TLUA_ISA=")
   end)

   it("refuses factorizations and elementary functions of complex numbers, and is switched off again", function()
      if not has_mode then return pending "this build has no portable loops (ISAS)" end
      torch.use_deterministic_algorithms "portable"
      assert.is_true(torch.are_deterministic_algorithms_enabled())
      local a = torch.eye(3)
      assert.raises("solve: not available with use_deterministic_algorithms", function() torch.linalg.solve(a, a) end)
      local z = torch.complex(a, a)
      assert.raises("exp: not defined for complex64 tensors with", function() z:exp() end)
      assert.equals(5.0, torch.complex(torch.tensor(3.0), torch.tensor(4.0)):abs():item())
      torch.use_deterministic_algorithms(false)
      assert.is_false(torch.are_deterministic_algorithms_enabled())
      assert.equals(1.0, torch.linalg.solve(a, a)[{1, 1}]:item())
   end)

   it("gives results that agree with the fast loops", function()
      if not has_mode then return pending "this build has no portable loops (ISAS)" end
      local x = torch.randn(40, 50, {dtype = "float64"})
      local functions = {"exp", "sin", "tanh", "erf", "sinh", "atan", "expm1"}
      local fast = {x:matmul(x.T), torch.fft.rfft(x):abs()}
      for i, name in ipairs(functions) do fast[i + 2] = x[name](x) end
      torch.use_deterministic_algorithms "portable"
      local slow = {x:matmul(x.T), torch.fft.rfft(x):abs()}
      for i, name in ipairs(functions) do slow[i + 2] = x[name](x) end
      for i in ipairs(fast) do assert.close(fast[i], slow[i], 1e-13) end
   end)

   it("is noticed by compiled functions, whose constants were computed in the fast mode", function()
      if not has_mode then return pending "this build has no portable loops (ISAS)" end
      local _ <close> = torch.no_grad()
      local nn = torch.nn
      local function result(first)
         torch.use_deterministic_algorithms "portable"
         torch.manual_seed(4)
         local model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
            nn.Linear(576, 9))
         model[2].running_var:uniform_(0.5, 2)
         local weight, x = torch.randn(9, 9), torch.randn(2, 3, 8, 8)
         local fast = torch.compile(function(a) return model(a) * weight:exp():sum() end, {fullgraph = true})
         model:eval()
         torch.use_deterministic_algorithms(first)
         for _ = 1, 4 do fast(x) end
         torch.use_deterministic_algorithms "portable"
         for _ = 1, 4 do fast(x) end
         return fast(x):tolist()
      end
      assert.same(result "portable", result(false))
   end)

   it("refuses other words", function()
      assert.raises('expected true, false or "portable", got', function()
         torch.use_deterministic_algorithms "exact"
      end)
   end)
end)
