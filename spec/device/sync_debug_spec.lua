-- Tests the mode that reports operators that make the host wait.

local torch = require "tlua"
local device = require "spec.support.device"
local shell = require "spec.support.shell"
local kind = device.name or "sim"
local module = torch[kind]

describe("set_sync_debug_mode", function()
   local x
   before_each(function() x = torch.tensor({1.0, 0, 3}, {device = kind}) end)
   after_each(function() module.set_sync_debug_mode(0) end)

   it("makes only implicit waits errors", function()
      module.set_sync_debug_mode "error"
      assert.equal(2, module.get_sync_debug_mode())
      local line = debug.getinfo(1, "l").currentline + 1
      local ok, message = pcall(function() return x:sum():item() end)
      assert.is_false(ok)
      assert.matches("sync_debug_spec.lua:" .. line .. ": item: the host would have to wait for " ..
         kind .. ":0 here, which set_sync_debug_mode has made an error", message)
      for name, fn in pairs {
         nonzero = function() return x:nonzero() end, cpu = function() return x:cpu() end,
         tolist = function() return x:tolist() end,
      } do
         assert.raises(name .. ": the host would have to wait", fn)
      end
      local y = x * 2
      module.synchronize()
      module.current_stream():synchronize()
      module.set_sync_debug_mode "default"
      assert.equal(0, module.get_sync_debug_mode())
      assert.equal(8, y:sum():item())
   end)

   it("prints warnings as Lua does", function()
      local output, status = shell.run(("%s -W -e %s 2>&1"):format(shell.start(), shell.quote(([[
         local x = torch.ones(3, {device = "%s"})
         torch.%s.set_sync_debug_mode "warn"
         local y = x + 1
         print(y:sum():item())]]):format(kind, kind))))
      assert.equal(0, status, output)
      assert.matches(":4: item: the host waits for " .. kind .. ":0\n6%.?0?\n$", output)
      assert.equal(1, select(2, output:gsub("the host waits", "")))
   end)

   it("accepts only its modes", function()
      module.set_sync_debug_mode(1)
      assert.equal(1, module.get_sync_debug_mode())
      assert.raises(kind .. '.set_sync_debug_mode: debug_mode: expected "default", "warn", "error" or ' ..
         '0 to 2, got "loud"', function() module.set_sync_debug_mode "loud" end)
      assert.equal(1, module.get_sync_debug_mode())
   end)
end)
