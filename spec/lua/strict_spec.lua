-- Tests that an unknown name in a public table is an error. The error points at the line that reads the name, and
-- suggests the closest name.

local torch = require "tlua"
local shell = require "spec.support.shell"

local lists <const> = {[torch.cuda.default_generators] = true, [torch.sim.default_generators] = true}

-- Maps the path of each namespace to its table. Namespaces are tables of names that can be reached from torch. Classes,
-- objects, lists of values, metatables, and tables whose fields are settings are not namespaces.
local function namespaces()
   local found, seen = {}, {}
   local function visit(path, value)
      if seen[value] or lists[value] or rawget(value, "__name") then return end
      seen[value] = true
      local meta = getmetatable(value)
      local object = type(meta) == "table" and (meta.__call or meta.ancestors or not meta.lazy)
      if object and value ~= torch.Tensor then return end
      found[path] = value
      for name, field in pairs(value) do
         if type(field) == "table" and type(name) == "string" and not name:find "^_" then
            visit(path .. "." .. name, field)
         end
      end
   end
   visit("torch.data", torch.data) -- torch.data has a second path, torch.utils.data
   visit("torch", torch)
   return found
end

local function line_of(level) return debug.getinfo(level + 1, "l").currentline end

describe("a public table", function()
   local all = namespaces()

   it("is reached by this spec", function()
      for path in ([[torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils
         torch.nn.utils.rnn torch.nn.parallel torch.optim torch.optim.lr_scheduler torch.cuda
         torch.sim torch.cuda.amp torch.data torch.amp torch.autograd torch.distributed
         torch.distributed.fsdp torch.distributed.ReduceOp torch.func torch.linalg torch.special
         torch.utils torch.utils.json torch.profiler torch.io torch.text torch.workers
         torch.Tensor]]):gmatch "%S+" do
         assert.is_table(all[path], path)
      end
   end)

   it("refuses an unknown name at the line that reads it", function()
      for path, value in pairs(all) do
         local line
         local ok, message = pcall(function()
            line = line_of(1)
            return value.no_such_name_at_all -- the error must name this line; `line` is the number of the line above
         end)
         assert.is_false(ok, path)
         local where, text = message:match "^(.-:%d+): (.*)$"
         assert.equal(("strict_spec.lua:%d"):format(line + 1), (where or message):match "[%w_.]+:%d+$")
         assert.equal("no field 'no_such_name_at_all'", text:match ": (no field '[%w_]+')", path)
      end
   end)

   it("names the nearest name, by its full path", function()
      for path, value in pairs(all) do
         local checked = 0
         local names = {}
         for name in pairs(value) do
            if type(name) == "string" and not name:find "^_" and #name > 6 then names[#names + 1] = name end
         end
         table.sort(names)
         for i = 1, #names, math.max(1, #names // 8) do
            local wrong = names[i]:sub(1, -2) .. "qq"
            local ok, message = pcall(function() return value[wrong] end)
            assert.is_false(ok, path .. "." .. wrong)
            local title, meant = message:match ": ([%w_.]+): no field '[%w_]+'%. Did you mean ([%w_.]+)%?$"
            assert.is_not_nil(title, message)
            assert.equal(title, (meant:match "^(.*)%.[^.]+$"), message)
            assert.is_true(torch.has(meant), message)
            checked = checked + 1
         end
         assert.is_true(checked > 0 or #names == 0, path)
      end
   end)

   it("says in which other table the name exists", function()
      assert.raises("torch: no field 'Linear'. Did you mean torch.nn.Linear?", function() return torch.Linear end)
      assert.raises("torch.nn: no field 'gelu'. Did you mean torch.nn.functional.gelu?",
         function() return torch.nn.gelu end)
      assert.raises("torch.nn: no field 'Adam'. Did you mean torch.optim.Adam?", function() return torch.nn.Adam end)
   end)

   it("refuses keys that are not names", function()
      assert.raises("torch.nn: no field nil", function() return torch.nn[nil] end)
      assert.raises("torch: no field true", function() return torch[true] end)
   end)

   it("is not taken for a list or for an object with metamethods", function()
      for path, value in pairs(all) do
         if path ~= "torch.Tensor" then
            assert.equal(0, #value)
            for _ in ipairs(value) do error(path) end
         end
         assert.is_nil(value.__call, path)
      end
   end)

   it("takes new fields", function()
      local MyLayer = torch.class("MyLayer", torch.nn.Module)
      torch.nn.MyLayer = MyLayer
      assert.equal(MyLayer, torch.nn.MyLayer)
      assert.is_true(torch.has "nn.MyLayer")
      torch.nn.MyLayer = nil
      assert.raises("torch.nn: no field 'MyLayer'", function() return torch.nn.MyLayer end)
   end)

   it("is read by rawget without an error", function()
      assert.is_nil(rawget(torch.nn, "no_such_name"))
      assert.equal(torch.nn.Linear, rawget(torch.nn, "Linear"))
   end)

   it("includes fields that are not loaded yet in pairs", function()
      local program = [[
         local torch = require "tlua"
         local names = {}
         for name, value in pairs(torch.optim) do names[name] = value end
         for name in pairs(require "tlua.lazy".fields(torch.optim)) do
            assert(names[name] == rawget(torch.optim, name) and names[name] ~= nil, name)
         end
         assert(names.Adam and names.lr_scheduler.StepLR)
         io.write "seen"]]
      assert.equal("seen", shell.ok(("%s -e %s"):format(shell.quote(shell.tlua), shell.quote(program))))
   end)

   it("is the same table in a worker", function()
      local program = assert(load([[
         local torch = require "tlua"
         local linalg, nn, F = torch.linalg, torch.nn, torch.nn.functional
         local function work()
            local ok, message = pcall(function() return nn.Liner end)
            assert(nn == torch.nn and F == torch.nn.functional and linalg == torch.linalg)
            return not ok and message
         end
         for message in torch.data.DataLoader({1}, {num_workers = 1, collate_fn = work}):iter() do
            return message
         end]], "=program"))
      assert.equal("program:4: torch.nn: no field 'Liner'. Did you mean torch.nn.Linear?", program())
   end)
end)

describe("torch.has", function()
   it("reports whether a name exists", function()
      for name in ([[nn nn.Linear nn.functional.relu cuda.is_available Tensor.add torch.nn.Linear
         nn.Linear.forward backends.cudnn.benchmark backends.cuda.matmul.allow_tf32 linalg.norm
         optim.lr_scheduler.StepLR distributed.ReduceOp.SUM has]]):gmatch "%S+" do
         assert.is_true(torch.has(name), name)
      end
      for name in ([[Liner nn.Liner nn.Linear.backwards no.such.thing nn. .nn . add.x cuda.x.y
         backends.cudnn.x backends.x]]):gmatch "%S+" do
         assert.is_false(torch.has(name), name)
      end
   end)

   it("refuses values that are not names", function()
      assert.raises('has: name: expected a name such as "nn.Linear", got nil', function() torch.has() end)
      assert.raises('has: name: expected a name such as "nn.Linear", got ""', function() torch.has "" end)
   end)

   it("does not load the module that it looks for", function()
      local program = [[
         local torch = require "tlua"
         assert(torch.has "nn" and not package.loaded["tlua.nn"])
         assert(torch.has "nn.Linear" and not package.loaded["tlua.nn.modules.Linear"])
         assert(torch.has "optim.Adam" and not package.loaded["tlua.optim.Adam"])
         assert(torch.has "cuda.is_available" and not torch.has "cuda.is_availabe")
         io.write "asked"]]
      assert.equal("asked", shell.ok(("%s -e %s"):format(shell.quote(shell.tlua), shell.quote(program))))
   end)
end)

it("a name that torch lacks is an error that says what serves instead", function()
   for name, reason in pairs {
      quantization = "torch.ao.quantization has",
      dtype = "a dtype is a string here", layout = "strided", memory_format = "torch.channels_last",
   } do
      assert.raises("torch." .. name .. ": ", reason, function() assert(torch[name]) end)
   end
   assert.raises("torch.utils.checkpoint: no field 'checkpont'",
      function() assert(torch.utils.checkpoint.checkpont) end)
end)
