-- The walls of the house (src/README.md), held by reading the sources.

local shell = require "spec.support.shell"

package.path = "src/gen/?.lua;" .. package.path
local load = require "load"

local function files(pattern)
   local list = {}
   for path in shell.ok("ls " .. pattern):gmatch("[^\n]+") do list[#list + 1] = path end
   return list
end

local function folders(root)
   local set = {}
   for _, path in ipairs(files("-d " .. root .. "/*/")) do set[path:match("([^/]+)/$")] = true end
   return set
end

-- Operator -> the file that defines its C function; those that a macro defines are not found.
local function definitions()
   local where = {}
   for _, path in ipairs(files("src/ops/*/*.c")) do
      for _, prefix in ipairs {"tlo_", "tli_op_"} do
         local pattern = "\n[%a_][%w_ ]*[ *]" .. prefix .. "([%w_]+)%b()%s*{"
         for name in shell.read(path):gmatch(pattern) do where[name] = path end
      end
   end
   return where
end

describe("src/ops", function()
   local all = load.load(files("src/ops/*/*.lua"))

   it("has an operator's C beside its schema, in the file of the same name", function()
      local where, astray, found = definitions(), {}, 0
      for _, op in ipairs(all.ops) do
         local path = not op.pointwise and not op.expr and (where[op.cname] or where[op.cname .. "_"])
         if path then
            found = found + 1
            local expected = op.file:gsub("%.lua$", ".c")
            if path ~= expected then astray[#astray + 1] = ("%s: %s"):format(op.cname, path) end
         end
      end
      assert.same({}, astray)
      assert.truthy(found > 400, found .. " definitions found")
   end)
end)

describe("kernels/cpu", function()
   it("has no family that src/ops does not know", function()
      local ops = folders("src/ops")
      for name in pairs(folders("kernels/cpu")) do
         assert.truthy(ops[name] or name == "isa", name)
      end
   end)
end)
