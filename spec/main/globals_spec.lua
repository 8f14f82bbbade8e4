-- Tests the globals torch, nn and optim of the command, whose modules are loaded when a global is first used.

local session = require "spec.main.session"
local script = session.script

local function prints(expected, text)
   local result = script(text)
   assert.equal(expected .. "\n", result.out .. result.err)
end

describe("a program run by tlua", function()
   it("has torch, nn and optim", function()
      prints("true\ttrue\ttrue", [[
         print(torch == require "tlua", nn == torch.nn, optim == torch.optim)]])
   end)

   it("finds the library with require without using the globals", function()
      prints("3", [[print(require("tlua").tensor({1, 2}):sum():item())]])
   end)

   it("does not open the library before it is used", function()
      prints("nil", "print(package.loaded.tlua)")
      prints("nil\tnil", "print(rawget(_G, 'torch'), undefined_name)")
   end)

   it("keeps values assigned to the library's globals", function()
      prints("true", "local t = torch; print(rawget(_G, 'torch') == t)")
   end)

   it("may use the names for its own variables", function()
      prints("5\tnil", "nn = 5; print(nn, package.loaded.tlua)")
   end)

   it("may give the globals a metatable of its own", function()
      prints("strict", [[
         setmetatable(_G, {__index = function() return "strict" end})
         print(torch)]])
      prints("table", [[
         setmetatable(_G, {__index = function(_, name) error(name) end})
         print(type(require "tlua"))]])
   end)

   it("keeps the globals if _G gets another metatable after their use", function()
      prints("true", [[
         local t = torch
         setmetatable(_G, {__index = function(_, name) error(name) end})
         print(torch == t)]])
   end)

   it("has them in an environment that inherits the globals", function()
      prints("true", [[
         local env = setmetatable({}, {__index = _G})
         print(load("return torch", "=x", "t", env)() == torch)]])
   end)

   it("has no `help` unless a person types", function()
      prints("nil", "print(help)")
      assert.equal("function\n", session.run("-e 'print(type(help))'").out)
   end)
end)
