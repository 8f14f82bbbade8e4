-- toys.lua - environments with few states: FrozenLake, Taxi (Dietterich 2000), CliffWalking and
-- Blackjack (Sutton and Barto). Those of grids have outcomes(state, action), a list of
-- {probability, next state, reward, terminated}.

local class = require "tlua.class"
local Env = require "tlua.rl.Env"
local spaces = require "tlua.rl.spaces"

local M = {}

local function define(name, states, actions)
   local cls = class.class("rl." .. name, Env)
   function cls:__init()
      self.action_space = spaces.Discrete(actions)
      self.observation_space = spaces.Discrete(states)
   end
   function cls:observe() return self.state end
   function cls:advance(action)
      local list = self:outcomes(self.state, action)
      local draw = #list > 1 and self:uniform(1, 0, 1)[1] or 0
      local chosen = list[#list]
      for _, outcome in ipairs(list) do
         draw = draw - outcome[1]
         if draw < 0 then
            chosen = outcome
            break
         end
      end
      self.state = chosen[2]
      return chosen[3], chosen[4]
   end
   M[name] = cls
   return cls
end

-- FrozenLake --------------------------------------------------------------------------------------

local function lake(name, map)
   local width = #map[1]
   local cls = define(name, #map * width, 4)
   local moves <const> = {{0, -1}, {1, 0}, {0, 1}, {-1, 0}} -- left, down, right, up

   local function letter(state)
      local row, column = (state - 1) // width, (state - 1) % width
      return map[row + 1]:sub(column + 1, column + 1)
   end

   function cls:start() self.state = 1 end

   function cls:outcomes(state, action)
      if letter(state):find "[GH]" then return {{1.0, state, 0.0, true}} end
      local list = {}
      for turn = -1, 1 do
         local move = moves[(action - 1 + turn) % 4 + 1]
         local row = math.max(0, math.min(#map - 1, (state - 1) // width + move[1]))
         local column = math.max(0, math.min(width - 1, (state - 1) % width + move[2]))
         local new = row * width + column + 1
         list[#list + 1] = {1 / 3, new, letter(new) == "G" and 1.0 or 0.0,
            letter(new):find "[GH]" ~= nil}
      end
      return list
   end
end

lake("FrozenLake", {"SFFF", "FHFH", "FFFH", "HFFG"})
lake("FrozenLake8x8", {"SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF",
   "FHFFHFHF", "FFFHFFFG"})

-- CliffWalking ------------------------------------------------------------------------------------

local Cliff = define("CliffWalking", 48, 4)

function Cliff:start() self.state = 37 end

function Cliff:outcomes(state, action)
   local move = ({{-1, 0}, {0, 1}, {1, 0}, {0, -1}})[action] -- up, right, down, left
   local row = math.max(0, math.min(3, (state - 1) // 12 + move[1]))
   local column = math.max(0, math.min(11, (state - 1) % 12 + move[2]))
   if row == 3 and column > 0 and column < 11 then return {{1.0, 37, -100.0, false}} end
   local new = row * 12 + column + 1
   return {{1.0, new, -1.0, new == 48}}
end

-- Taxi --------------------------------------------------------------------------------------------

local Taxi = define("Taxi", 500, 6)

local town <const> = {"|R: | : :G|", "| : | : : |", "| : : : : |", "| | : | : |", "|Y| : |B: |"}
local places <const> = {[0] = {0, 0}, {0, 4}, {4, 0}, {4, 3}}

local function place_at(row, column)
   for i = 0, 3 do
      if places[i][1] == row and places[i][2] == column then return i end
   end
end

function Taxi:start()
   repeat
      local draws = self:uniform(4, 0, 1)
      local row, column = math.floor(draws[1] * 5), math.floor(draws[2] * 5)
      local from, to = math.floor(draws[3] * 4), math.floor(draws[4] * 4)
      self.state = ((row * 5 + column) * 5 + from) * 4 + to + 1
   until from ~= to
end

function Taxi:outcomes(state, action)
   local code = state - 1
   local to, from = code % 4, code // 4 % 5
   local column, row = code // 20 % 5, code // 100
   local reward, terminated = -1.0, false
   local line = town[row + 1]
   if action == 1 then row = math.min(row + 1, 4)
   elseif action == 2 then row = math.max(row - 1, 0)
   elseif action == 3 and line:sub(2 * column + 3, 2 * column + 3) == ":" then column = column + 1
   elseif action == 4 and line:sub(2 * column + 1, 2 * column + 1) == ":" then column = column - 1
   elseif action == 5 then
      if from < 4 and place_at(row, column) == from then from = 4 else reward = -10.0 end
   elseif action == 6 then
      local here = place_at(row, column)
      if here == to and from == 4 then
         from, reward, terminated = to, 20.0, true
      elseif here and from == 4 then
         from = here
      else
         reward = -10.0
      end
   end
   return {{1.0, ((row * 5 + column) * 5 + from) * 4 + to + 1, reward, terminated}}
end

-- Blackjack ---------------------------------------------------------------------------------------

local Blackjack = class.class("rl.Blackjack", Env)
M.Blackjack = Blackjack

function Blackjack:__init()
   self.action_space = spaces.Discrete(2) -- 1: stick, 2: hit
   self.observation_space = spaces.Box({1, 1, 0}, {31, 10, 1})
end

--- Returns a card's value; a face counts 10.
function Blackjack:draw()
   return math.min(10, 1 + math.floor(self:uniform(1, 0, 13)[1]))
end

local function has_ace(hand)
   local sum, ace = 0, false
   for _, card in ipairs(hand) do sum, ace = sum + card, ace or card == 1 end
   return ace and sum + 10 <= 21, sum
end

local function value(hand)
   local ace, sum = has_ace(hand)
   return ace and sum + 10 or sum
end

local function is_natural(hand) return #hand == 2 and value(hand) == 21 end

function Blackjack:start()
   local dealer = {self:draw(), self:draw()}
   self.state = {dealer = dealer, player = {self:draw(), self:draw()}}
end

function Blackjack:observe()
   local s = self.state
   return {value(s.player), s.dealer[1], has_ace(s.player) and 1 or 0}
end

function Blackjack:advance(action)
   local player, dealer = self.state.player, self.state.dealer
   if action == 2 then
      player[#player + 1] = self:draw()
      local bust = value(player) > 21
      return bust and -1.0 or 0.0, bust
   end
   while value(dealer) < 17 do dealer[#dealer + 1] = self:draw() end
   if is_natural(player) and not is_natural(dealer) then return 1.0, true end
   local mine, other = value(player), value(dealer)
   other = other > 21 and 0 or other
   return mine > other and 1.0 or mine < other and -1.0 or 0.0, true
end

return M
