-- Tests the reference: every public name has a declaration next to its code, and the generated files (annotations for
-- editors, the manual, the site) contain every name.

local torch = require "tlua"
local shell = require "spec.support.shell"

package.path = "src/docs/?.lua;" .. package.path
local annotated = require "spec.support.annotated"
local annotations = require "annotations"
local examples = require "spec.support.examples"
local complete = require "tlua.repl.complete"
local declarations = require "declarations"
local of_lua = require "tlua.repl.declarations"
local site = require "site"
local types = require "tlua.repl.types"

local all = declarations.all(".", shell.build .. "/gen")

local function keys_of(set)
   local list = {}
   for name in pairs(set) do list[#list + 1] = name end
   table.sort(list)
   return list
end

-- Calls visit(declaration) for every public name, including methods.
local function each(visit)
   for _, declared in ipairs(all) do
      visit(declared)
      for _, method in ipairs(declared.methods or {}) do visit(method) end
   end
end

local sample <const> = {
   count = 4, integer = 1, dim = 1, layers = 1, integers = 2, number = 0.5, boolean = false,
   string = "mean", callable = torch.relu, ["function"] = torch.relu, tensor = torch.ones(2, 2),
   numbers = {0.5, 0.9}, any = torch.ones(2),
}

-- Creates a layer with the arguments that its declaration requires. Returns nil if the layer needs more arguments.
local function layer(declared)
   local arguments = {}
   for _, p in ipairs(declared.signature or {}) do
      if not p.optional then arguments[p.name] = sample[p.kinds:match "[%w_]+"] end
   end
   local made, object = pcall(torch.nn[declared.path:match "[%w_]+$"], next(arguments) and arguments or nil)
   return made and object or nil
end

describe("declarations", function()
   it("exist for every public name, with a sentence", function()
      local list, seen = {}, 0
      each(function(declared)
         seen = seen + 1
         local text = table.concat(declared.text or {}, " ")
         if declared.missing or not text:find "%a" then list[#list + 1] = declared.path end
      end)
      assert.is_true(seen > 2700)
      assert.equal("", table.concat(list, "\n"))
   end)

   it("exist for every field of a class, with a description", function()
      local list, seen = {}, 0
      each(function(declared)
         for _, field in ipairs(declared.fields or {}) do
            seen = seen + 1
            if field.text == "" then list[#list + 1] = declared.path .. ": " .. field.name end
         end
      end)
      assert.is_true(seen > 300)
      assert.equal("", table.concat(list, "\n"))
   end)

   it("say what every parameter means", function()
      local list, seen = {}, 0
      each(function(declared)
         for _, p in ipairs(declared.params or {}) do
            seen = seen + 1
            if not of_lua.is_told(declared, p) then list[#list + 1] = declared.path .. ": " .. p.name end
         end
      end)
      assert.is_true(seen > 6000)
      assert.equal("", table.concat(list, "\n"))
   end)

   it("show an example for every class, and for every fourth name", function()
      local list, classes = {}, 0
      for _, declared in ipairs(all) do
         if declared.kind == "class" then
            classes = classes + 1
            if not examples.of(declared.text) then list[#list + 1] = declared.path end
         end
      end
      assert.is_true(classes > 400)
      assert.equal("", table.concat(list, "\n"))
      local n = declarations.count(all)
      assert.is_true(n.examples > n.names / 4, n.examples .. " of " .. n.names)
   end)

   it("have all fields of the layers that can be made from required arguments", function()
      local by_name, undeclared, made = {}, {}, 0
      for _, declared in ipairs(all) do by_name[declared.name or declared.path] = declared end
      for _, declared in ipairs(all) do
         local object = declared.path:find "^torch%.nn%.%w+$" and declared.kind == "class" and layer(declared)
         local known, owner = {}, declared
         for _, p in ipairs(object and declared.params or {}) do known[p.name] = true end
         while object and owner do
            for _, field in ipairs(owner.fields) do known[field.name:gsub("%?$", "")] = true end
            owner = by_name[owner.parent]
         end
         if object then made = made + 1 end
         for key in next, object or {} do
            if type(key) == "string" and not key:find "^_" and not known[key] then
               undeclared[#undeclared + 1] = declared.path .. ": " .. key
            end
         end
      end
      assert.is_true(made > 150, made)
      assert.equal("", table.concat(undeclared, "\n"))
   end)

   it("name parameters that the code reads", function()
      local wrong = {}
      each(function(declared)
         for _, name in ipairs(declared.unread or {}) do
            wrong[#wrong + 1] = ("%s: %s"):format(declared.path, name)
         end
      end)
      assert.equal("", table.concat(wrong, "\n"))
   end)

   it("have the types and defaults that constructors check", function()
      local by_path = {}
      each(function(declared) by_path[declared.path] = declared end)
      assert.same({"nn.Linear(in_features, out_features, bias = true, device?, dtype?)"},
         by_path["torch.nn.Linear"].calls)
      assert.equal("integer", by_path["torch.nn.Linear"].params[1].type)
      local lr = by_path["torch.optim.Adam"].params[2]
      assert.same({"lr", 1e-3}, {lr.name, lr.default})
      assert.equal("torch.nn.Module", by_path["torch.nn.Module"].path)
   end)
end)

-- Lists beside the declarations -------------------------------------------------------------------

describe("lists of names beside the declarations", function()
   it("have rules of vmap for operators that exist", function()
      local unknown, count = {}, 0
      for name in pairs(require "tlua.func.rules") do
         count = count + 1
         local found = false
         for _, prefix in ipairs {"", "nn.functional.", "Tensor."} do found = found or torch.has(prefix .. name) end
         if not found then unknown[#unknown + 1] = name end
      end
      table.sort(unknown)
      assert.equal("", table.concat(unknown, " "))
      assert.is_true(count > 350)
   end)

   it("complete the fields of tensors that annotations declare", function()
      local head = annotations.print({}):match "%-%-%-@class torch.Tensor\n(.-)torch.Tensor = {}"
      local declared, completed = {}, {}
      for name in head:gmatch "%-%-%-@field ([%w_]+)" do declared[name] = true end
      for _, word in ipairs(complete.words("x.", {x = torch.ones(1)})) do
         local name = word:match "^x%.(.*)$"
         if declared[name] then completed[name] = true end
      end
      assert.same(declared, completed)
   end)

   it("declare nothing in C that does not exist", function()
      local missing, count = {}, 0
      for _, path in ipairs {"src/lua/types.lua", "src/lua/types_devices.lua", "src/lua/types_io.lua"} do
         for owner, name in shell.read(path):gmatch "\nfunction ([%w_.]+)[.:]([%w_]+)%(" do
            local at = (owner .. "."):gsub("^torch%.", "")
            count = count + 1
            if not torch.has(at .. name) then missing[#missing + 1] = at .. name end
         end
      end
      assert.is_true(count > 150)
      assert.equal("", table.concat(missing, "\n"))
   end)
end)

-- Annotations -------------------------------------------------------------------------------------

local basic <const> = {}
for name in ([[nil any boolean string number integer function table thread userdata unknown self fun
   true false file* lightuserdata]]):gmatch "%S+" do basic[name] = true end

-- Returns the names of other types inside a type, without the names of parameters and fields.
local function names_in(type)
   local plain = type:gsub('"[^"]*"', ""):gsub("([(,]%s*)[%w_]+%??%f[,)]", "%1")
   plain = plain:gsub("[%w_]+%??%s*:", " "):gsub("%.%.%.", " ")
   return plain:gmatch "[%a_][%w_.*]*"
end

describe("annotations", function()
   local text = annotations.print(all)
   local known = {T = true} -- names that ---@generic declares
   for name in text:gmatch "\n%-%-%-@class ([%w_.]+)" do known[name] = true end
   for name in text:gmatch "\n%-%-%-@alias ([%w_.]+)" do known[name] = true end

   it("are valid Lua", function()
      assert.truthy(load(text))
      assert.matches("^%-%-%-@meta", text)
   end)

   it("describe a function with several paths only once", function()
      assert.matches("\nfunction torch.nn.functional.softmax(self, dim, dtype, options) end\n", text, 1, true)
      for _, path in ipairs {"torch.softmax", "torch.Tensor.softmax"} do
         assert.matches("\n" .. path .. " = torch.nn.functional.softmax\n", text, 1, true)
      end
      assert.not_matches("torch.Tensor:softmax(", text, 1, true)
   end)

   it("are in a file of the library and one of each package, which together declare the same", function()
      local function declared(source)
         local set = {}
         for line in source:gmatch "[^\n]+" do
            if line:find "^function " or line:find "^torch[%w_.]* = " or line:find "^%-%-%-@class " then
               set[line] = true
            end
         end
         return set
      end
      local files, union = annotations.files(all), {}
      for name, source in pairs(files) do
         assert.truthy(load(source), name)
         for line in pairs(declared(source)) do union[line] = true end
         local table_of_package = "torch." .. name
         assert.equal(name ~= "tlua", source:find("\n" .. table_of_package .. " = {}\n", 1, true) ~= nil, name)
         assert.matches(name == "tlua" and "\nreturn torch\n$" or "\nreturn torch%." .. name .. "\n$", source)
      end
      assert.same(declared(text), union)
      assert.matches("^%-%-%-@meta tlua%.vision\n", files.vision)
      assert.not_matches("torch.vision.ops = ", files.tlua, 1, true)
   end)

   it("have a class for each class, with its fields and options", function()
      for _, declared in ipairs(all) do
         if declared.kind == "class" and not declared.missing then
            assert.is_true(known[declared.name], declared.name)
         end
      end
      assert.matches("---@class nn.Linear: nn.Module\n---@field weight Tensor", text, 1, true)
      assert.matches("options?: {lr?: number, ", text, 1, true)
   end)

   it("refer to types that are declared", function()
      local unknown = {}
      for tag, rest in text:gmatch "\n%-%-%-@(%a+) ([^\n]+)" do
         local type = rest
         if tag == "param" or tag == "field" then type = rest:match "^%S+ (.*)$" or "" end
         if tag == "class" then type = rest:match ": (.*)$" or "" end
         if tag == "alias" or tag == "operator" or tag == "meta" then type = "" end
         for name in names_in((types.split(type))) do
            if not basic[name] and not known[name] then unknown[name] = true end
         end
      end
      assert.equal("", table.concat(keys_of(unknown), " "))
   end)
end)

describe("annotations of examples", function()
   local known = annotated.read(annotations.print(all))

   it("have all their names, methods and options", function()
      local sources, whole, problems, count = {}, {}, {}, 0
      for path in shell.ok "find examples -name '*.lua'":gmatch "[^\n]+" do
         sources[path] = shell.read(path)
         whole[#whole + 1] = sources[path]
      end
      for path, source in pairs(sources) do
         count = count + 1
         for _, problem in ipairs(annotated.check(known, source, table.concat(whole),
            {emu = true, request = true})) do
            problems[#problems + 1] = path .. ":" .. problem
         end
      end
      assert.is_true(count > 30)
      assert.equal("", table.concat(problems, "\n"))
   end)

   it("would show a wrong name, a wrong method and a wrong option", function()
      assert.same({
         "2: torch.nn.Linaer", "3: torch.nn.Linear: option baos", "5: torch.nn.functional.rleu", "4: method sigmiod",
      }, annotated.check(known, [[
local nn, F = torch.nn, torch.nn.functional
local a = nn.Linaer(2, 3) -- the misspelt name nn.Linaer is ignored in a comment
local b = nn.Linear(2, 3, {baos = false})
print(b(x):sigmiod())
print(F.rleu(x), "torch.nonsense", torch.optim.Adam(b:parameters(), {lr = 1}))
]], ""))
   end)
end)

-- Site --------------------------------------------------------------------------------------------

describe("the site", function()
   local folder, pages = nil, {}

   setup(function()
      folder = shell.ok("mktemp -d"):match "[^\n]+"
      if not shell.has "cmark-gfm" then return end
      site.write(folder, ".", all)
      for path in shell.ok("ls " .. folder .. "/*.html"):gmatch "[^\n]+" do
         pages[path:match "[^/]+$"] = shell.read(path)
      end
   end)

   teardown(function() shell.ok("rm -rf " .. shell.quote(folder)) end)

   local function need()
      if not shell.has "cmark-gfm" then pending "no cmark-gfm" end
   end

   it("has no broken links", function()
      need()
      local ids, broken, count = {}, {}, 0
      for name, text in pairs(pages) do
         ids[name] = {}
         for id in text:gmatch ' id="([^"]+)"' do ids[name][id] = true end
      end
      for name, text in pairs(pages) do
         for target in text:gmatch 'href="([^"]+)"' do
            if not target:find "^https?:" and target ~= "site.css" then
               local page, anchor = target:match "^([^#]*)#?(.*)$"
               page = page == "" and name or page
               count = count + 1
               if not pages[page] or anchor ~= "" and not ids[page][anchor] then
                  broken[#broken + 1] = name .. ": " .. target
               end
            end
         end
      end
      assert.is_true(count > 3000)
      assert.equal("", table.concat(broken, "\n"))
   end)

   it("finds every public name by its search", function()
      need()
      local found, missing = {}, {}
      local index = shell.read(folder .. "/index.js")
      for name, page in index:gmatch '%["([^"]+)","([^"#]+)' do
         found[name] = page
         assert.truthy(pages[page], page)
      end
      each(function(declared)
         local name = declared.path:find "^torch%.[^.]+%." and declared.path:gsub("^torch%.", "") or declared.path
         local is_empty = declared.kind == "module" and not found[name]
         if not declared.missing and not is_empty and not found[name]
            and not found[(name:gsub("^torch%.", ""))] then
            missing[#missing + 1] = name
         end
      end)
      assert.equal("", table.concat(missing, "\n"))
   end)

   it("describes each function of the C header, with its comment", function()
      need()
      local text, missing = pages["c-api.html"], {}
      for name in shell.read "src/tlua.h":gmatch "\nTL_API [^;]-([%w_]+)%(" do
         if not text:find(('id="%s"'):format(name), 1, true) then missing[#missing + 1] = name end
      end
      assert.equal("", table.concat(missing, " "))
      assert.matches('<p>Returns the number of bytes of one element.</p>', text, 1, true)
   end)
end)

-- Examples ----------------------------------------------------------------------------------------

describe("examples", function()
   local programs, expected, paths, wide = {}, {}, {}, {}
   local seen = {}
   each(function(declared)
      local program, prints = examples.of(declared.text)
      if not program or seen[program] then return end
      if program:find "sim" and not torch.sim.is_available() then return end
      seen[program] = true
      local i = #programs + 1
      programs[i], expected[i], paths[i] = program, prints, declared.path
      for line in program:gmatch "[^\n]+" do
         if utf8.len(line) > 80 then wide[#wide + 1] = declared.path .. ": " .. line end
      end
   end)

   it("print the output written beside them", function()
      for i, output in ipairs(examples.run(programs)) do assert.equal(expected[i], output, paths[i]) end
      assert.is_true(#programs >= 5, #programs .. " examples")
   end)

   it("fit a terminal of 80 columns", function() assert.equal("", table.concat(wide, "\n")) end)

   it("are shown by help with their line breaks", function()
      local shown = require "tlua.repl.manual".help
      for _, name in ipairs {"sum", "nn.Linear", "data.DataLoader", "nn.functional.gelu"} do
         assert.matches("\n    [^\n]+\n    %-%-> ", shown(name), nil, name)
      end
   end)
end)

describe("tlua help", function()
   local tlua = shell.start(true)

   it("prints the manual's text on a name", function()
      assert.matches("^nn%.Linear%(in_features", shell.ok(tlua .. " help nn.Linear"))
   end)

   it("explains how to install the reference if it is not found", shell.in_folder(function(folder)
      shell.ok(("cp %s %s/tlua"):format(shell.build .. "/tlua", folder))
      local output, status = shell.run(folder .. "/tlua help --web")
      assert.equal(1, status)
      assert.matches("make docs install", output, 1, true)
   end))
end)
