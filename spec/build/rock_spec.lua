-- The rock, built and installed into a tree of its own, for the system's Lua.

local shell = require "spec.support.shell"

describe("the rock", function()
   local tree

   setup(function()
      tree = shell.ok("mktemp -d"):match("[^\n]+")
   end)

   teardown(function()
      shell.ok("rm -rf " .. shell.quote(tree))
   end)

   it("gives plain Lua the module #slow", function()
      if not shell.has("luarocks") then pending("no luarocks") end
      -- Unoptimised, since only the way matters here, not the speed.
      shell.ok("KERNEL_CFLAGS= luarocks --lua-version 5.4 make rocks/tlua-scm-1.rockspec --tree " ..
         tree .. " CFLAGS=-O0")
      local script = 'local torch = require "tlua"; print(torch.ones(2, 3):sum():item())'
      local run = ([[cd %s && eval "$(luarocks --lua-version 5.4 path --tree %s)" && ]] ..
         [[lua5.4 -e '%s']]):format(tree, tree, script)
      assert.equal("6.0\n", shell.ok(run))
      local needed = shell.ok(("readelf -d %s/lib/lua/5.4/tlua.so"):format(tree))
      assert.falsy(needed:find("NEEDED[^\n]*lua"))
   end)
end)
