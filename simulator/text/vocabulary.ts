/** Common English words; each is a token with and without a leading space, in lower case and capitalised. */
const WORDS =
  `the of and to in is that for it as was with be by on not he his but at are this have from or had an they
which one you were all her she there would their we him been has when who will no more if out so up said what its about
than into them can only other time new some could these two may first then do any like my now over such our man me even
most made after also did many off before must well back through years much where your way down should because long each
just state those people too good great how still own see work same here between both under last life world day never
another while again place since three four five six seven eight nine ten hundred thousand half third quarter twice
number numbers sum total difference product ratio percent per cost price money dollar dollars cents pay paid sell sold
buy bought each every group groups left right remain remains remaining add adds added adding subtract multiply divide
divided equal equals answer answers question questions problem problems step steps solution solve solved therefore thus
hence means mean value values result results check compute calculate find found given know known need needs take takes
minute minutes hour hours second seconds day days week weeks month year speed distance length width height area angle
train trains car cars book books apple apples egg eggs box boxes table tables chair chairs door doors light lights
water river road house houses school class student students teacher friend friends family children boy girl woman men
women city town country land sea air fire earth sun moon star stars tree trees leaf leaves flower bird birds dog dogs
cat cats horse fish animal animals plant plants food bread milk fruit sugar salt coffee tea color colour red blue green
white black yellow large small big little high low near far fast slow hot cold old young early late easy hard simple
clear true false correct wrong likely possible sure certain different similar important main key several few less least
enough almost always often usually sometimes however although though unless until whether either neither instead
rather quite very really perhaps maybe indeed finally first next let us consider suppose assume note notice recall
compare compared combine combined choose choice choices option options reason reasons reasoning argument evidence
claim claims agree agrees agreed disagree support supports supported majority response responses model models agent
agents candidate candidates review reviewing final best better worse good strong weak short longer shorter brief
detail details example examples case cases point points part parts side sides whole rest order list line lines word
words letter letters name names text page pages code function data test tests file files line system user assistant
input output message use used using uses make makes making get gets got give gives go goes going come comes came run
runs running start starts end ends begin begins stop stops open close read write written wrote say says tell tells ask
asks asked show shows shown think thinks thought believe hold holds keep keeps kept put set sets turn turns move moves
change changes changed grow grows fall falls rise rises increase decrease follow follows leads lead cause causes effect
effects energy force power heat pressure gas ice steam metal stone wood paper glass oil gold silver iron history war
peace law government company market trade business service policy public private local national human body mind heart
hand hands head eye eyes face voice sound music art science theory method fact facts idea ideas plan plans goal goals
learn learning study studies research language practice habit habits skill skills memory focus goal rule rules exactly
together against during without within along across around behind below above among toward directly separately`
    .split(/\s+/);

/** Pieces that words outside the list are cut into, so that unknown words cost about as much as in a real model. */
const PIECES =
  `ing tion ions ment ness able ible ful less ous ive ance ence ity ies ist ism ize ise ate ated ating er ers
est ed es ly al ial ical ic ics an ian ary ery ory en ent ant ar or ure age ade ide ite ine une ole ome one ope ore ose
ove ual ude ule ume ush ust com con pre pro per sub sup dis mis non inter over under trans ex un re de in im be th ch sh
ph wh st sp sk sc sl sm sn sw tr dr br cr fr gr pr pl bl cl fl gl qu ck ng nd nt rd rt rs ss tt ll ff pp mm nn ee ea oo
ou ow oi ai ay ey ie ei au aw ew ui ab ac ad af ag ak am ap as at av aw ax az ba bi bo bu ca ce ci co cu da di do du
ef eg el em ep er et ev fa fe fi fo fu ga ge gi go gu ha he hi ho hu id ig il ip ir is it iv ja jo ju ka ke ki ko la le
li lo lu ma me mi mo mu na ne ni no nu ob oc od of og ol om on op os ot pa pe pi po pu ra ri ro ru sa se si so su ta te
ti to tu ub ug ul um up ur us ut va ve vi vo wa we wi wo ya ye yo za ze`.split(/\s+/);

/** Tokens with a meaning of their own; their ids are the last of the vocabulary. */
export const SPECIAL_TOKENS: readonly string[] = [
  "<|endoftext|>",
  "<|im_start|>",
  "<|im_end|>",
  "<think>",
  "</think>",
];

/** Token texts after the 256 byte tokens: id 256 + index. No text occurs twice. */
export const TOKEN_TEXTS: readonly string[] = [
  ...new Set([
    ".\n",
    ...WORDS.map((word) => ` ${word}`),
    ...WORDS,
    ...WORDS.map((word) => ` ${capitalise(word)}`),
    ...WORDS.map(capitalise),
    ...PIECES,
    ...PIECES.map((piece) => ` ${piece}`),
  ]),
].filter((text) => text.length > 1);

function capitalise(word: string): string {
  return word[0]!.toUpperCase() + word.slice(1);
}
