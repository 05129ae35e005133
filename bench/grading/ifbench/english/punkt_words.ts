/** Words that Punkt's English model knows to be abbreviations, without their last dot. */
export const ABBREVIATIONS: ReadonlySet<string> = words(`
  . .  a.a a.c a.d a.g a.h a.m a.m.e a.s a.t adm ala ariz aug ave b.f b.v bros c c.i.t c.o.m.b c.v calif
  chg cie co col colo conn corp cos ct d d.c d.h d.w dec dr e e.f e.h e.l e.m f f.g f.j feb fla fri ft g
  g.d g.f g.k ga gen h h.c h.f h.m i.m.s ill inc j.b j.c j.j j.k j.p j.r jan jr k kan ky l l.a l.f l.p lt
  ltd m m.b.a m.d.c m.j maj messrs mg mich minn mr mrs ms n n.c n.d n.h n.j n.m n.v n.y nev nov oct ok okla
  ore p p.a.m p.m pa ph.d prof r r.a r.h r.i r.j r.k r.t rep reps s s.a s.a.y s.c s.g s.p.a s.s sen sep
  sept sr st sw t t.j tenn tues u.k u.n u.s u.s.a u.s.s.r v va vs vt w w.c w.r w.va w.w wash wed wis yr
`).add(". .");

/** Words that the model has often seen at the start of a sentence. */
export const SENTENCE_STARTERS: ReadonlySet<string> = words(`
  according although among both but despite even he however i if in indeed instead it many meanwhile
  moreover most nevertheless nonetheless nor sales separately similarly since so some the there these they
  this though thus under when while yet
`);

/** Words behind a number with a dot that does not end a sentence. */
const AFTER_NUMBERS = `
  abreast aes business cbot colgate commodities cooper corrections credit dividend financing genentech
  henley insider international leisure letters notable pay-fone pegasus pepper review rj wedgestone who
  zimmer
`;

/** Pairs of words, joined by a blank, between which no sentence ends. */
export const COLLOCATIONS: ReadonlySet<string> = new Set([
  "b edelman",
  "b levine",
  "b smith",
  "b stewart",
  "b wigton",
  "i magnin",
  "i toussie",
  "j aron",
  "j fialka",
  "j walter",
  "o ludcke",
  ...Array.from(words(AFTER_NUMBERS), (word) => `##number## ${word}`),
]);

function words(text: string): Set<string> {
  return new Set(text.trim().split(/\s+/u));
}
