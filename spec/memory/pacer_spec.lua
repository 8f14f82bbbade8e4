-- Tests that Lua's collector keeps up with tensors, although it does not see their memory. The test covers the modes of
-- the collector: the default mode of `tlua`, the generational mode of the lua5.4 command, and the incremental mode of a
-- host's state (spec/embed/memory.c). Each test measures the resident memory of a separate process.

local shell = require "spec.support.shell"

-- With a sanitizer, memory is returned to the system late, so these tests are skipped.
local sanitized = shell.build:find("asan") or shell.build:find("tsan")

local hosts = {
   ["tlua"] = shell.start(),
   ["plain Lua"] = "env LUA_CPATH=" .. shell.quote(shell.build .. "/libtlua.so") .. " lua5.4",
}

for name, command in pairs(hosts) do
   describe("in " .. name, function()
      local function runs(script)
         if sanitized then return pending("a sanitizer holds freed memory back") end
         if name == "plain Lua" and not shell.has("lua5.4") then return pending("no lua5.4") end
         shell.ok(command .. " spec/memory/" .. script)
      end

      it("keeps no memory of 500,000 small sums", function() runs("small.lua") end)
      it("needs little memory for 5 GB of sums", function() runs("large.lua") end)
      it("soon frees tensors that have left a window", function() runs("window.lua") end)
      it("keeps no memory of training steps", function() runs("training.lua") end)
      it("keeps no memory of losses without a backward pass", function() runs("saved.lua") end)
      it("keeps no memory of hooks that refer to their own tensor", function() runs("cycles.lua") end)
      it("leaves a stopped collector stopped", function() runs("stopped.lua") end)
   end)
end

describe("the digits example", function()
   -- Trains in a separate process and returns its peak memory. LUA_INIT makes the program print the peak when it ends.
   local function peak(epochs)
      return shell.with_folder(function(folder)
         local output = shell.ok(("env LUA_INIT=%s %s examples/digits.lua --epochs %d --save %s/w"):
            format(shell.quote("@spec/memory/peak.lua"), shell.start(), epochs, folder))
         return tonumber(output:match("peak: (%d+) kB"))
      end)
   end

   it("needs no more memory for more epochs", function()
      if sanitized then return pending("a sanitizer holds freed memory back") end
      -- The timing of collections changes the peak by up to 4 MB, and longer runs tend to reach the upper end. The test
      -- does not notice a leak of one batch of images (16 kB) in each of 132 more steps. It does notice a leak of one
      -- layer's activations (512 kB), which would be seven times the limit.
      local short, long = peak(2), peak(8)
      if not short then return pending "the system does not tell the largest resident size" end
      assert(long - short <= 9000, ("%d kB for 2 epochs, %d kB for 8"):format(short, long))
   end)
end)
