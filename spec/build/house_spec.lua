-- Tests that the sources follow the rules of src/README.md.

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

-- Maps each operator to the file that defines its C function. Functions that macros define are not found.
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

describe("src/lua", function()
   it("gives each internal function of torch a name of its own, so that none replaces another", function()
      local where, twice, count = {}, {}, 0
      for _, path in ipairs(files("src/lua/*.c src/lua/*/*.c")) do
         for name in shell.read(path):gmatch '{"(_%l[%w_]*)",%s*[%a_][%w_]*}' do
            if where[name] then twice[#twice + 1] = ("%s: %s and %s"):format(name, where[name], path) end
            where[name], count = path, count + 1
         end
      end
      assert.same({}, twice)
      assert.is_true(count > 80, count .. " functions found")
   end)
end)

describe("src/ops", function()
   local all = load.load(files("src/ops/*/*.lua"))

   it("has an operator's C function beside its schema, in the file of the same name", function()
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

   it("lets a tracer see compositions that the binding calls in C", function()
      local called, unseen = {}, {}
      for name in shell.ok("grep -rhoE 'tlo_[a-z_0-9]+' src/lua"):gmatch "tlo_([%w_]+)" do called[name] = true end
      assert.is_true(called.index and called.neg)
      for _, op in ipairs(all.ops) do
         local seen = op.hooked or op.expr or op.flops or not op.composite
         if (called[op.cname] or op.metamethod) and not seen then unseen[#unseen + 1] = op.cname end
         if called[op.cname .. "_"] and op.composite and op.inplace then unseen[#unseen + 1] = op.cname .. "_" end
      end
      assert.same({}, unseen)
   end)
end)

it("kernels/cpu has no family that src/ops does not know", function()
   local ops = folders("src/ops")
   for name in pairs(folders("kernels/cpu")) do assert.truthy(ops[name] or name == "isa", name) end
end)

-- Maps each folder to the prefixes of the paths that its files may include. Lower layers must not include higher ones.
-- The only exception is two headers that the operators and the graph share.
local may_include = {
   ["src/core"] = {"core/", "tlua.h", "kernels.h"},
   ["src/io"] = {"core/", "io/"},
   ["src/ops"] = {"core/", "ops/", "ops.h", "autograd/graph.h"},
   ["src/autograd"] = {"core/", "autograd/", "ops.h"},
   ["src/graph"] = {"core/", "autograd/graph.h", "autograd/calls.h", "graph/", "ops/", "ops.h", "calls.h"},
   ["src/dist"] = {"core/", "dist/", "ops/", "ops.h", "tlua.h"},
   ["src/lua"] = {"core/", "io/", "ops/", "autograd/", "dist/", "graph/", "lua/", "ops.h", "bind.h", "tlua.h"},
   ["src/main"] = {"core/", "dist/", "lua/", "main/", "tlua.h"},
   ["kernels/cpu"] = {
      "core/", "kernels/cpu/", "kernels/complex.h", "kernels/fused.h", "kernels/math.h", "kernels/optim.h",
      "kernels/special.h", "isas.h", "runtime_kernels.h", "each_pointwise.h", "each_reduction.h", "each_scan.h",
   },
   ["kernels/meta"] = {"core/"},
   ["kernels/device"] = {"core/", "kernels/device/"},
   ["kernels/sim"] = {"core/", "kernels/device/", "kernels/sim/"},
}

local function allowed(list, header)
   for _, beginning in ipairs(list) do
      if header:sub(1, #beginning) == beginning then return true end
   end
   return false
end

describe("#include", function()
   for folder, list in pairs(may_include) do
      it("points down only, from " .. folder, function()
         local wrong, seen = {}, 0
         local lines = shell.ok("grep -rEo '^#include [\"<][^\">]+' --include='*.[ch]' " .. folder)
         for path, kind, header in lines:gmatch('([^:\n]+):#include (["<])([^\n]+)') do
            seen = seen + 1
            local lua = header:find("^lua") and folder ~= "src/lua" and folder ~= "src/main"
            if lua or kind == '"' and not allowed(list, header) then wrong[#wrong + 1] = path .. ": " .. header end
         end
         assert.same({}, wrong)
         assert.truthy(seen > 2)
      end)
   end
end)

-- Returns the text of a loop that begins on line i and ends with the `end` in the same column.
local function loop_at(lines, i)
   local column, body = lines[i]:match "^ *", {lines[i]}
   if lines[i]:find "%f[%w]do%f[%W].*%f[%w]end%f[%W]" then return lines[i] end
   repeat
      i = i + 1
      body[#body + 1] = lines[i]
   until not lines[i] or lines[i]:find("^" .. column .. "end%f[%W]")
   return table.concat(body, "\n")
end

describe("a spec's loop over pairs", function()
   it("draws no random numbers: the order differs from run to run (spec/support/sorted.lua)", function()
      local astray, seen = {}, 0
      for path in shell.ok("grep -rlE 'in pairs' spec --include='*_spec.lua'"):gmatch "[^\n]+" do
         local lines = {}
         for line in shell.read(path):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
         for i, line in ipairs(lines) do
            if line:find "^ *for [%w_, ]+ in pairs" then
               seen = seen + 1
               local draws = loop_at(lines, i):find "%f[%w]rand[%w_]*[ (]"
               if draws then astray[#astray + 1] = ("%s:%d"):format(path, i) end
            end
         end
      end
      assert.same({}, astray)
      assert.truthy(seen > 50)
   end)
end)

it("a source file has no control characters but ends of lines and tabs", function()
   local listed = shell.ok("find src kernels lua rocks examples spec -name '*.c' -o -name '*.h' -o " ..
      "-name '*.cu' -o -name '*.cuh' -o -name '*.cc' -o -name '*.lua' -o -name '*.md'")
   local found, count = {}, 0
   for path in listed:gmatch "[^\n]+" do
      count = count + 1
      if shell.read(path):find "[%z\1-\8\11-\31\127]" then found[#found + 1] = path end
   end
   assert.same({}, found)
   assert.is_true(count > 1500, count)
end)

it("the table of places for changes in src/README.md names files and folders that are there", function()
   local text = shell.read("src/README.md"):match "## Where a change goes\n(.-)\n## "
   local missing, seen = {}, 0
   for path in text:gmatch "`([%w_./]+)`" do
      if path:find "/" then
         seen = seen + 1
         if select(2, shell.run("test -e " .. shell.quote(path))) ~= 0 then missing[#missing + 1] = path end
      end
   end
   assert.same({}, missing)
   assert.truthy(seen > 60)
end)

describe("comments", function()
   local read = require("spec.support.comments").read

   -- Patterns of comments that are hard to read: sentences without a subject, and pronouns whose noun is not in the
   -- comment.
   local headless <const> = {
      "^%s*What ", "^%s*Who ", "^%s*Whose ", "^%s*Whom ", "^%s*Which ", "^%s*Where ", "^%s*That ", "^%s*Whoever ",
      "^%s*Whatever ", "^%s*Of ", "^%s*And ", "^%s*But ", "^%s*Or ", "^%s*Also ", "^%s*Too ", "^%s*So ", "^%s*Not ",
      "^%s*Then ", "^%s*Ditto", "^%s*Likewise", "^%s*They ", "^%s*It ", "^%s*Them ", "^%s*Those ", "^%s*Here ",
      "^%s*The same [^a-z]", "^%s*The same[,.]", "^%s*what ", "^%s*who ", "^%s*whose ", "^%s*whom ", "^%s*which ",
      "^%s*where ", "^%s*that ", "^%s*they ", "^%s*them ", "^%s*those ", "^%s*it ", "^%s*or ", "whoever",
      "whatever it", "what there is", "none the less", "thereof", "hears? of", "whose turn", "nobody has",
      "holds nobody", "what it stands for", "as it stands", "so many [%a]+[.:;,]",
   }

   it("begin with a subject or a verb, not with a word such as What, Which, Of or And", function()
      local found = {}
      for _, comment in ipairs(read {"src", "kernels", "lua", "spec", "rocks", "examples"}) do
         for _, pattern in ipairs(headless) do
            if comment.text:find(pattern) then
               found[#found + 1] = ("%s:%d: %s"):format(comment.path, comment.line, comment.text)
            end
         end
      end
      assert.same({}, found)
   end)
end)

it("names of tests do not begin with an option or a headless word", function()
   local found = {}
   for path in shell.ok("git ls-files 'spec/*_spec.lua' 'rocks/*_spec.lua'"):gmatch "%S+" do
      for name in shell.read(path):gmatch "%f[%w]it%s*%(?%s*\"([^\"]*)" do
         for _, pattern in ipairs {"^%-", "^what ", "^who ", "^whoever ", "^whatever ", "^or "} do
            if name:find(pattern) then found[#found + 1] = path .. ": " .. name end
         end
      end
   end
   assert.same({}, found)
end)

it("the repository's top level has the fixed names alone", function()
   local fixed, found = {}, {}
   for name in ("Makefile src lua kernels examples spec rocks README.md LICENSE"):gmatch "%S+" do fixed[name] = true end
   for path in shell.ok("git ls-files"):gmatch "[^\n]+" do
      local name = path:match "^[^/]+"
      if not fixed[name] and name:sub(1, 1) ~= "." then found[#found + 1] = path end
   end
   assert.same({}, found)
end)
