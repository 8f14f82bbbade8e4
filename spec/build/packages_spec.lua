-- Tests the packages in rocks/. Each rockspec lists the package's files. LuaRocks builds each package separately, and
-- the package's specs pass with an installed core and no other packages. Programs find the packages that `make install`
-- has installed.

local torch = require "tlua"
local packages = require "tlua.packages"
local shell = require "spec.support.shell"

local names = {}
for path in shell.ok("ls -d rocks/*/"):gmatch "rocks/([^/\n]+)/" do names[#names + 1] = path end

-- Returns the paths of a package's Lua modules, relative to the package's folder.
local function lua_files(folder)
   local list = {}
   local command = "cd %s && find . -name '*.lua' ! -path './spec/*' ! -path './examples/*'"
   for path in shell.ok(command:format(folder)):gmatch "%./([^\n]+%.lua)" do list[#list + 1] = path end
   return list
end

-- Returns the fields of a package's rockspec.
local function rockspec(name)
   local fields = {}
   assert(loadfile(("rocks/%s/tlua-%s-scm-1.rockspec"):format(name, name), "t", fields))()
   return fields
end

describe("a rockspec", function()
   for _, name in ipairs(names) do
      it("lists all files of " .. name, function()
         local spec, expected = rockspec(name), {}
         for _, file in ipairs(lua_files("rocks/" .. name)) do
            local module = ("tlua.%s.%s"):format(name, file:gsub("%.lua$", "")):gsub("/", "."):gsub("%.init$", "")
            expected[module] = file
         end
         assert.equal("tlua-" .. name, spec.package)
         for module, built in pairs(spec.build.modules) do
            if type(built) == "table" then -- the module is written in C
               for _, source in ipairs(built.sources) do shell.read(("rocks/%s/%s"):format(name, source)) end
               expected[module] = built
            end
         end
         assert.same(expected, spec.build.modules)
      end)
   end
end)

describe("tlua.packages", function()
   it("has only modules that the library contains or that are installed", function()
      assert.same({true, false, true, false}, {packages.has "tlua.nn.functional", packages.has "tlua.nn.no_such_module",
         packages.has "tlua.text", packages.has "tlua.text.no_such_module"})
      assert.is_false(require "tlua.lazy".is_there "tlua.no_such_module")
   end)

   it("knows each folder of rocks/", function()
      local known = {}
      for name in pairs(packages.names) do known[#known + 1] = name end
      table.sort(known)
      assert.same(names, known)
   end)

   it("loads a package's modules under names that count as the library's", function()
      local _, chunk, path = packages.source "tlua.text"
      assert.equal("=tlua:text/init.lua", chunk)
      assert.matches("/rocks/text/init%.lua$", path)
      local text = packages.source "=tlua:text/BPE.lua"
      assert.equal(shell.read "rocks/text/BPE.lua", text)
      local ok, message = pcall(function() torch.text.BPE.load(3) end)
      assert.is_false(ok)
      assert.matches("^%S*packages_spec%.lua:%d+: ", message)
   end)

   it("distinguishes a missing module of a package from a missing package", function()
      assert.raises("the package text has no such module", function() require "tlua.text.Unknown" end)
   end)
end)

describe("make install", function()
   local prefix

   local function install(folder, chosen)
      shell.ok(("make install BUILD=%s PREFIX=%s PACKAGES='%s'"):format(shell.build, folder, chosen))
   end

   setup(function()
      prefix = shell.ok("mktemp -d"):match "[^\n]+"
      install(prefix, "")
   end)

   teardown(function() shell.ok("rm -rf " .. shell.quote(prefix)) end)

   local function tlua(folder, script)
      return shell.ok(("cd / && %s/bin/tlua -e %s"):format(folder, shell.quote(script)))
   end

   it("installs a core whose errors name the package that PACKAGES= has left out", function()
      assert.equal("", (shell.run(("ls %s/share/lua 2>/dev/null"):format(prefix))))
      for used, name in pairs {
         ["torch.text"] = "text", ["torch.utils.tensorboard"] = "tensorboard", ["torch.utils.plot"] = "plot",
         ["torch.utils.mlflow"] = "mlflow", ["torch.data.datapipes"] = "datapipes",
         ["torch.onnx"] = "onnx", ["torch.trainer"] = "trainer", ["torch.rl"] = "rl", ["torch.graphs"] = "graphs",
         ["torch.notebook"] = "notebook", ["torch.serve"] = "serve",
         ["torch.hub"] = "hub", ["torch.utils.wandb"] = "wandb",
         ["torch.data.IterDataPipe"] = "datapipes", ["torch.nn.View"] = "torch7",
      } do
         local expected = ("(command line):1: %s: the package %s is not installed: luarocks install tlua-%s\n")
            :format(used, name, name)
         assert.equal(expected, tlua(prefix, ("print(select(2, pcall(function() return %s end)))"):format(used)))
      end
      assert.matches("nn.Module.getParameters: the package torch7 is not installed: luarocks install tlua-torch7",
         tlua(prefix, "print(pcall(function() return torch.nn.Linear(1, 1):getParameters() end))"), 1, true)
      assert.matches("luarocks install tlua-text",
         tlua(prefix, "print(pcall(function() torch.ones(1); require 'tlua.text' end))"), 1, true)
   end)

   it("leaves the annotations of omitted packages out", function()
      assert.equal("tlua.lua\n", shell.ok(("ls %s/share/tlua/types"):format(prefix)))
   end)

   it("hides omitted packages in torch.has and pairs, and trains without them", function()
      assert.equal("false\tfalse\ttrue\tnil\n", tlua(prefix, [[
         local seen
         for name in pairs(torch) do seen = seen or name == "text" or nil end
         for _ in pairs(torch.nn) do end
         print(torch.has "text", torch.has "nn.View", torch.has "nn.Linear", seen)]]))
      assert.equal("3\n", tlua(prefix, [[
         local n = 0
         local set = torch.data.TensorDataset(torch.arange(1, 6))
         for _ in torch.data.DataLoader(set, {batch_size = 2, num_workers = 1}):iter() do n = n + 1 end
         print(n)]]))
   end)

   it("installs the packages that PACKAGES names, also for plain Lua, workers and a moved prefix", function()
      shell.with_folder(function(folder)
         install(folder .. "/first", "text datapipes")
         shell.ok(("mv %s/first %s/moved"):format(folder, folder))
         local moved = folder .. "/moved"
         assert.equal("text.lua\ntlua.lua\n", shell.ok(("ls %s/share/tlua/types"):format(moved)))
         local script = [[
            local torch = require "tlua"
            local pipe = torch.data.datapipes.iter.IterableWrapper {1, 2, 3, 4}
            local loader = torch.data.DataLoader(pipe:sharding_filter(),
               {num_workers = 2})
            local sum = 0
            for x in loader:iter() do sum = sum + x:sum():item() end
            print(sum, torch.has "text", torch.has "utils.plot", require "tlua.text" == torch.text)]]
         local expected = "10\ttrue\tfalse\ttrue\n"
         assert.equal(expected, tlua(moved, script))
         if shell.has "lua5.4" then
            assert.equal(expected, shell.ok(("cd / && LUA_CPATH='%s/lib/lua/5.4/?.so' lua5.4 -e %s"):format(
               moved, shell.quote(script))))
         end
      end)
   end)

   it("refuses a package that does not exist", function()
      local said, status = shell.run(("make install BUILD=%s PREFIX=%s PACKAGES=sculpture"):format(shell.build, prefix))
      assert.not_equal(0, status)
      assert.matches("there is no package sculpture", said, 1, true)
   end)

   local function luarocks_make(name, tree)
      shell.ok(("cd rocks/%s && luarocks --lua-version 5.4 make --deps-mode none --tree %s"):format(name, tree))
   end

   -- Spec files that this spec leaves out, because they train or build large models, or wait for many processes. The
   -- remaining files still load every module.
   local long <const> = {
      "audio/spec/examples", "audio/spec/functional", "llm/spec/cache", "llm/spec/examples",
      "notebook/spec/kernel", "onnx/spec/export", "rl/spec/agents", "serve/spec/command", "serve/spec/script",
      "serve/spec/versions", "text/spec/examples", "text/spec/searches", "text/spec/tokenizer", "torch7/spec/examples",
      "trainer/spec/lies", "trainer/spec/other_ranks", "trainer/spec/resume", "trainer/spec/strategy",
      "trainer/spec/sweep", "vision/spec/examples", "vision/spec/models",
   }

   it("lets LuaRocks add each package alone to a core, which then passes its specs", function()
      if not shell.has "luarocks" then pending "no luarocks" end
      for _, name in ipairs(names) do
         shell.with_folder(function(folder)
            local tree = folder .. "/tree"
            shell.ok(("cp -a %s %s"):format(prefix, tree))
            luarocks_make(name, tree)
            for _, other in ipairs(rockspec(name).dependencies) do
               if other:find "^tlua%-" then luarocks_make(other:match "^tlua%-(%w+)", tree) end
            end
            -- each module is loaded first in a process of its own, as a program may load it
            local loads = {"cd /"}
            for module, built in pairs(rockspec(name).build.modules) do
               if type(built) == "string" then
                  loads[#loads + 1] = ("%s/bin/tlua -e 'assert(require %q)'"):format(tree, module)
               end
            end
            assert.is_true(#loads > 1, name)
            shell.ok(table.concat(loads, " && "))
            local said = shell.ok(("TLUA=%s/bin/tlua lua5.4 spec/support/run.lua --exclude rocks/%s rocks/%s")
               :format(tree, table.concat(long, " --exclude rocks/"), name))
            assert.matches("%d+ passed, 0 failed[^\n]*\n$", said)
         end)
      end
   end)

   it("finds packages that LuaRocks has installed into a separate tree", function()
      if not shell.has "luarocks" then pending "no luarocks" end
      shell.with_folder(function(tree)
         luarocks_make("text", tree)
         local script = "local BPE = require 'tlua.text'.BPE print(torch.text.BPE == BPE) BPE.load(3)"
         local said = shell.run(([[eval "$(luarocks --lua-version 5.4 path --tree %s)"; ]] ..
            [[%s/bin/tlua -e 'torch.ones(1)' -e %s]]):format(tree, prefix, shell.quote(script)))
         assert.matches("^true\n%S+: %(command line%):1: text%.BPE%.load: ", said)
      end)
   end)
end)
