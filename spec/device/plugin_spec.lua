-- Tests missing or invalid plugin files, which must cause an error message and nothing worse.

local shell = require "spec.support.shell"

-- Writes these bytes to the plugin file of a device, and runs a program that makes a tensor on the device. Returns the
-- output.
local function tried_with(bytes)
   return shell.with_folder(function(folder)
      shell.write(folder .. "/tlua_sim.so", bytes)
      local output, status = shell.run(([[TLUA_PLUGINS=%s %s -e 'print(pcall(]] ..
         [[require("tlua").ones, 2, {device = "sim"}))']]):format(shell.quote(folder), shell.start()))
      assert.equal(0, status)
      return output
   end)
end

local plugin = shell.read((os.getenv "TLUA_BUILD" or "build") .. "/tlua_sim.so")

describe("a plugin", function()
   it("is refused if its file is truncated", function()
      for _, bytes in ipairs {64, 1000, 4095, 4096, 4097, 20000} do
         assert.matches("tlua_sim.so is cut short", tried_with(plugin:sub(1, bytes)), 1, true)
      end
   end)

   it("may lack debug information", function()
      for share = 1, 7 do
         local output = tried_with(plugin:sub(1, #plugin * share // 8))
         assert.truthy(output:find("tlua_sim.so is cut short", 1, true) or
            output:find "^true%s+tensor%(%[1%., 1%.%]", output)
      end
   end)

   it("is refused if it is not a library", function()
      assert.matches("tlua_sim.so: file too short", tried_with "", 1, true)
      assert.matches("tlua_sim.so: ", tried_with(("no library\n"):rep(1000)), 1, true)
   end)
end)
